"""From target weights to orders and fills: backtest engines, the bridge to policies, whoever fills or stops orders."""

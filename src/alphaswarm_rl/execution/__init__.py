"""From target weights to fills: backtest engines, the bridge by which strategies ask a policy, orders."""

"""Tries the Triton kernels without a GPU: compiled for one, and run by Triton's interpreter beside the plain path.

`make check-triton` installs what it needs in a virtual environment of its own: Triton is no dependency of the tests,
and its interpreter needs an older NumPy.
"""

import os
import sys
from pathlib import Path

if "--compile" not in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"
sys.path[:0] = [str(Path(__file__).resolve().parent.parent / folder) for folder in ("src", "benchmarks")]

import torch  # noqa: E402  (the interpreter is chosen before Triton is imported)

from alphaswarm_rl.arrays import backend_torch  # noqa: E402
from alphaswarm_rl.arrays import gather_triton as gather  # noqa: E402
from alphaswarm_rl.market import decision_step_torch, kernels_torch  # noqa: E402
from alphaswarm_rl.market import kernels_triton as trading  # noqa: E402
from alphaswarm_rl.market.costs import CostModel  # noqa: E402
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin  # noqa: E402

CPU = torch.device("cpu")
CASES = (
    (30, {}, True, CASH_ACCOUNT),
    (7, {}, False, Margin()),
    (5, {"commission_minimum": 5.0, "commission_per_share": 0.01, "sell_commission_rate": 0.001}, True, Margin()),
    (6, {"impact": 0.1}, True, CASH_ACCOUNT),
    (8, {"impact": 0.1, "commission_minimum": 3.0}, False, CASH_ACCOUNT),
)


def check_trading(assets: int, costs: dict[str, float], whole: bool, margin: Margin) -> None:
    """Trades of random accounts: share counts exactly, money to 1e-9."""
    n, bars, rates = 300, 50, CostModel(**costs).rates(252)
    number = {"dtype": torch.float64}
    prices, marks = torch.rand(2, bars, assets, **number) * 100 + 5
    tradable, volume = torch.rand(bars, assets) > 0.1, torch.rand(bars, assets, **number) * 1e5
    cash, positions = torch.rand(n, **number) * 3e4, torch.floor(torch.rand(n, assets, **number) * 50)
    orders = torch.round((torch.rand(n, assets, **number) * 2 - 1) * 100)
    weights = torch.softmax(torch.rand(n, assets + 1, **number) * 4, 1)[:, 1:] * (1.5 if margin.short else 1.0)
    time = torch.randint(0, bars, (n,))
    kernel, plain = trading.TritonTrader(rates, margin, CPU), kernels_torch.TorchTrader(rates, margin)
    rows = kernels_torch.MarketRows(time, prices, tradable, volume)
    for name, action, more in (("trade_shares", orders, {"whole": whole}), ("trade_to_weights", weights, {})):
        expected, _ = getattr(plain, name)(cash, positions, action, rows, marks, **more)
        found, marked = getattr(kernel, name)(cash, positions, action, rows, marks, **more)
        compare(found[1:], expected[1:])
        compare(marked, plain.mark(expected.cash, expected.positions, time, marks))
        if name == "trade_shares":
            assert torch.equal(found.traded, expected.traded), "share counts are the same"


def compare(found: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> None:
    """To 1e-9."""
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs.double(), rtol=1e-9, atol=1e-7)


def check_environments() -> None:
    """Whole environments, their observations too, on kernels and on the plain path."""
    import gpu_env

    panel = gpu_env.synthetic_panel(bars=150, assets=6, features=3)

    def built(name: str) -> object:
        return gpu_env.build(name, panel, 9, "next_open", device="cpu", compiled=False)

    plain = {name: built(name) for name in gpu_env.NAMES}
    start = backend_torch.TorchBackend.__init__

    def with_kernels(self: backend_torch.TorchBackend, device: torch.device) -> None:
        start(self, device)
        self._kernels = gather

    backend_torch.TorchBackend.__init__ = with_kernels
    decision_step_torch._trader = trading.TritonTrader
    for name, other in plain.items():
        env = built(name)
        assert torch.equal(env.reset()[0], other.reset()[0])
        for _ in range(100):
            action = torch.rand(9, *env.single_action_space.shape) * 2 - 1
            mine, theirs = env.step(action), other.step(action)
            ended = mine[4]["_final_obs"]
            compare(mine[:4], theirs[:4])
            compare((mine[4]["final_obs"][ended],), (theirs[4]["final_obs"][ended],))


def compile_all() -> None:
    """Every kernel for a Hopper GPU, as far as machine code."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {"count": "i32", "assets": "i32", "stride": "i32", "width": "i32", "row_width": "i32", "back": "i32"}
    types |= dict.fromkeys(("time_in", "bar", "start", "chosen"), "*i64")
    types |= {"out": "*fp32"} | dict.fromkeys(("tradable_in", "called_out", "only"), "*u8")
    flags = {"MINIMUM": True, "WHOLE": True, "SHORT": True, "LENDS": True, "MARK": True, "SOME": True}
    flags |= {"IMPACT": True, "CASH": True}
    sizes = {"BLOCK": 1, "WIDTH": 32, "NEWTON": 6, "STEPS": 60, "ROWS": 4, "ACROSS": 512}
    kernels = (trading._shares_kernel, trading._weights_kernel, trading._mark_kernel)
    copies = (gather._rows_kernel, gather._columns_kernel, gather._growth_kernel, gather._parts_kernel)
    for kernel in (*kernels, *copies):
        for on in (True, False):
            constants = dict.fromkeys(flags, on) | sizes | ({"BLOCK": 128} if kernel is kernels[0] else {})
            own = {name: constants[name] for name in kernel.arg_names if name in constants}
            signature = {name: "constexpr" if name in own else types.get(name, "*fp64") for name in kernel.arg_names}
            places = {(kernel.arg_names.index(name),): value for name, value in own.items()}
            source = ASTSource(kernel, signature, constexprs=places)
            triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    if "--compile" in sys.argv:
        compile_all()
        sys.stdout.write("all kernels compile for a GPU\n")
    else:
        torch.manual_seed(0)
        for case in CASES:
            check_trading(*case)
        check_environments()
        sys.stdout.write("all kernels give the numbers of the plain path\n")

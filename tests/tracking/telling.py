"""A journal with one of everything, and what each tracker makes of it, read by the tracker's own client."""

import json
import struct
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from alphaswarm_rl.tracking.journal import Journal
from alphaswarm_rl.tracking.tracker import manifest_sha256

RUN = "11111111-2222-3333-4444-555555555555"
TAGS = {"rl_run_id": RUN, "spec_hash": "ab12", "target": "train"}
PARAMS = {"agent.class": "ppo", "agent.kwargs.n_steps": "64", "training.seed": "null"}
POINTS = [(64, {"train/loss": 0.5, "episode/reward": 20.0}), (128, {"train/loss": 0.25}), (128, {"final/mean": 21.5})]
SPEC = "name: tiny\n"
WEIGHTS = b"\x00\x01weights"


@dataclass
class Seen:
    """What a tracker knows of a run."""

    name: str
    status: str
    tags: dict
    params: dict
    #: By name, the steps and values in order.
    metrics: dict
    #: By path.
    artefacts: dict
    models: list = field(default_factory=list)


EXPECTED = Seen(
    name="tuesday",
    status="completed",
    tags=TAGS,
    params=PARAMS,
    metrics={
        "train/loss": [(64, 0.5), (128, 0.25)],
        "episode/reward": [(64, 20.0)],
        "final/mean": [(128, 21.5)],
    },
    artefacts={
        "spec.yaml": SPEC.encode(),
        "checkpoints/last/checkpoint.json": b"{}",
        "checkpoints/last/state.safetensors": WEIGHTS,
    },
    models=[("champion", "checkpoints/last")],
)


def checkpoint(folder: Path) -> Path:
    """A folder that looks like a checkpoint."""
    folder.mkdir(parents=True)
    (folder / "checkpoint.json").write_text("{}")
    (folder / "state.safetensors").write_bytes(WEIGHTS)
    return folder


def tell(folder: Path, destination, made: Path, *, run=RUN, ended=True) -> Path:
    """Writes the journal of a run."""
    journal = Journal(folder, run)
    journal.append("begin", name="tuesday", destination=destination.as_data())
    journal.append("tags", tags={**TAGS, "rl_run_id": run})
    journal.append("params", params=PARAMS)
    journal.append("artefact", name="spec.yaml", text=SPEC)
    for step, metrics in POINTS:
        journal.append("metrics", step=step, metrics=metrics)
    if ended:
        journal.append("artefact", name="checkpoints/last", path=str(made), sha256=manifest_sha256(made))
        journal.append("model", name="champion", artefact="checkpoints/last", tags={"rl_run_id": run})
        journal.append("end", status="completed")
    journal.close()
    assert journal.problem is None
    return journal.path


def seen_in_files(folder: Path) -> Seen:
    """What the local tracker's files say; artefacts are read from where they say they are."""
    read = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("run", "tags", "params")}
    artefacts = {}
    for name, artefact in json.loads((folder / "artefacts.json").read_text()).items():
        place = folder / artefact["path"]  # an absolute path stays what it is
        files = [place] if place.is_file() else sorted(place.iterdir())
        artefacts |= {name if path == place else f"{name}/{path.name}": path.read_bytes() for path in files}
    return _seen(read, (folder / "metrics.jsonl").read_text(), artefacts, folder)


def seen_in_tensorboard(folder: Path) -> Seen:
    """What the files say, with the metrics that TensorBoard's own reader finds; it has them in single precision."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder)).Reload()
    metrics = {tag: [(point.step, point.value) for point in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
    return replace(seen_in_files(folder), metrics=metrics)


def seen_in_bucket(client, bucket: str, prefix: str) -> Seen:
    """What is in a bucket, by boto3."""
    listed = client.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    objects = {
        item["Key"].removeprefix(f"{prefix}/"): client.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
        for item in listed
    }
    read = {name: json.loads(objects.pop(f"{name}.json")) for name in ("run", "tags", "params")}
    points = objects.pop("metrics.jsonl").decode()
    models = json.loads(objects.pop("models.json"))
    listed_artefacts = json.loads(objects.pop("artefacts.json"))
    assert listed_artefacts["checkpoints/last"]["path"] == f"s3://{bucket}/{prefix}/artefacts/checkpoints/last"
    artefacts = {name.removeprefix("artefacts/"): content for name, content in objects.items()}
    seen = _seen(read, points, artefacts, None)
    seen.models = [(name, model["artefact"]) for name, model in models.items()]
    return seen


def _seen(read, points: str, artefacts, folder) -> Seen:
    metrics = {}
    for point in map(json.loads, points.splitlines()):
        for name, value in point["metrics"].items():
            metrics.setdefault(name, []).append((point["step"], value))
    models = {} if folder is None else json.loads((folder / "models.json").read_text())
    return Seen(
        read["run"]["name"],
        read["run"]["status"],
        read["tags"],
        read["params"],
        metrics,
        artefacts,
        [(name, model["artefact"]) for name, model in models.items()],
    )


def mlflow_runs(client, experiment: str, run: str):
    """MLflow's runs of our run."""
    found = client.get_experiment_by_name(experiment)
    return client.search_runs([found.experiment_id], filter_string=f"tags.rl_run_id = '{run}'")


def seen_in_mlflow(client, experiment: str, run: str, download: Path) -> Seen:
    """What an MLflow server knows, by its client."""
    (found,) = mlflow_runs(client, experiment, run)
    run_id = found.info.run_id
    metrics = {
        name: [(point.step, point.value) for point in client.get_metric_history(run_id, name)]
        for name in found.data.metrics
    }
    download.mkdir(exist_ok=True)
    root = Path(client.download_artifacts(run_id, "", str(download)))
    artefacts = {
        path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }
    versions = client.search_model_versions(f"run_id = '{run_id}'")
    status = {"FINISHED": "completed", "FAILED": "failed", "KILLED": "killed", "RUNNING": "running"}
    return Seen(
        found.info.run_name,
        status[found.info.status],
        {name: value for name, value in found.data.tags.items() if not name.startswith("mlflow.")},
        found.data.params,
        metrics,
        artefacts,
        [(version.name, version.source.partition("/artifacts/")[2]) for version in versions],
    )


def wandb_records(path: Path):
    """The records of a .wandb file: a header of 7 bytes, then LevelDB's log format with W&B's own messages in it."""
    from wandb.proto import wandb_internal_pb2

    data, position, message = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while position < len(data):
        left = 32768 - position % 32768  # a fragment never crosses a block
        if left < 7:
            position += left
            continue
        checksum, length, kind = struct.unpack_from("<IHB", data, position)
        part = data[position + 7 : position + 7 + length]
        assert zlib.crc32(part, zlib.crc32(bytes([kind]))) == checksum
        position += 7 + length
        message += part
        if kind in (1, 4):  # whole, or its last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(message)
            message = b""
            yield record


def _items(items) -> dict:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def seen_in_wandb(root: Path, run: str) -> Seen:
    """What W&B's offline folder of a run says."""
    (folder,) = (root / "wandb").glob(f"offline-run-*-{run}")
    config, metrics, artefacts, models, name, status = {}, {}, {}, [], "", "running"
    for record in wandb_records(folder / f"run-{run}.wandb"):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            name = record.run.display_name
            assert record.run.run_id == run
            config |= _items(record.run.config.update)
        elif kind == "config":
            config |= _items(record.config.update)
        elif kind == "history":
            row = _items(record.history.item)
            step = row.pop("timesteps")
            for key, value in row.items():
                if not key.startswith("_"):
                    metrics.setdefault(key, []).append((step, value))
        elif kind == "artifact":
            made = record.artifact
            if made.type == "model":
                models.append((made.name, "checkpoints/last"))
            else:
                place = made.name.removesuffix(f"-{run}").replace("-", "/")
                files = made.manifest.contents
                artefacts |= {f"{place}/{file.path}": Path(file.local_path).read_bytes() for file in files}
        elif kind == "exit":
            status = "completed" if record.exit.exit_code == 0 else "failed"
    artefacts["spec.yaml"] = (folder / "files" / "spec.yaml").read_bytes()
    del config["_wandb"]
    params = {key: value for key, value in config.items() if key.startswith(("agent.", "training."))}
    tags = {key: value for key, value in config.items() if key not in params}
    return Seen(name, status, tags, params, metrics, artefacts, models)

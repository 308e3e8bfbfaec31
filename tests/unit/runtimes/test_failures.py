"""What the log of a failed engine is explained as."""

from pathlib import Path

import pytest

from profiles_app.runtimes.failure_table import TABLE
from profiles_app.runtimes.failures import explain

LOGS = Path(__file__).parents[2] / "data" / "vllm"


@pytest.mark.parametrize(
    ("log", "reason", "words"),
    [
        ("log_fail_bad_model", "ModelNotFound", "no model at /srv/models/nonexistent-model"),
        ("log_fail_cpu_memory", "InsufficientMemory", "Only 15.82 of 17.34 GiB of the host's memory are free"),
        ("log_fail_fp8_on_cpu", "QuantizationUnsupported", "no fp8 kernels"),
        ("log_fail_max_model_len", "ContextTooLong", "999999 tokens is asked for, but the model has 8192."),
        ("log_fail_max_seq_len_kv", "KvCacheTooSmall", "room for about 256 tokens"),
        ("log_fail_port", "PortTaken", "in use"),
        ("log_fail_tp_heads", "TensorParallelSize", "8 attention heads can't be divided over 9 GPUs"),
        ("log_fail_unknown_quant", "UnknownQuantization", "no quantization method foo"),
        ("log_decode_engine_killed_by_bad_kv_params", "BadTransferParameters", "kv_transfer_params"),
    ],
)
def test_each_recorded_failure_is_explained(log: str, reason: str, words: str) -> None:
    text = (LOGS / f"{log}.log").read_text(encoding="utf-8")
    failure = explain(text, 1)
    assert failure.reason == reason
    assert words in failure.message
    assert failure.fix
    assert failure.line is not None


def test_a_good_log_blames_nothing() -> None:
    failure = explain((LOGS / "log_ok_startup.log").read_text(encoding="utf-8"), 0)
    assert failure.line is None
    assert failure.reason == "ProcessExited"


# One line for each signature, as vLLM 0.32 or an older version prints it.
SAMPLES = {
    "unrecognized arguments: --swap-space 4": "UnknownFlag",
    "argument --dtype: invalid choice: 'fp7' (choose from auto, half)": "InvalidChoice",
    "argument --tensor-parallel-size/-tp: invalid int value: 'x'": "InvalidArgument",
    "ValueError: Unknown quantization method: gguf. Must be one of ['awq']": "UnknownQuantization",
    "ValueError: Quantization method specified in the model config (awq) does not match the quantization method "
    "specified in the `quantization` argument (fp8).": "QuantizationMismatch",
    "ValueError: The quantization method modelopt is not supported for the current GPU. Minimum capability: 80. "
    "Current capability: 75.": "GpuTooOld",
    "RuntimeError: Quantization scheme is not supported for the current GPU. Min capability: 89.": "GpuTooOld",
    "ValueError: torch.bfloat16 is not supported for quantization method awq. Supported dtypes: [torch.float16]": (
        "DtypeUnsupported"
    ),
    "ValueError: max_num_batched_tokens (512) is smaller than max_model_len (2048).": "BatchBounds",
    "ValueError: World size (4) is larger than the number of available GPUs (2) in this node.": "TooFewGpus",
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.": "DtypeUnsupported",
    "ValueError: Model architectures ['Foo'] are not supported for now.": "ModelUnsupported",
    "ValueError: Model architectures ['Foo'] failed to be inspected.": "ModelUnsupported",
    "RuntimeError: Cannot find any model weights with `/srv/models/x`": "WeightsMissing",
    "huggingface_hub.errors.GatedRepoError: 401 Client Error.": "ModelAccess",
    "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files": "ModelNotFound",
    "ValueError: Please pass the argument `trust_remote_code=True` to allow custom code to be run.": "RemoteCode",
    "ValueError: Sleep mode is not supported on current platform.": "SleepUnsupported",
    "importlib.metadata.PackageNotFoundError: No package metadata was found for vllm": "EngineInstall",
    "RuntimeError: operator torchvision::nms does not exist": "EngineInstall",
    "ValueError: Free memory on device cuda:0 (3.1/79.1 GiB) on startup is less than desired GPU memory utilization "
    "(0.92, 72.8 GiB).": "InsufficientGpuMemory",
    "ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.2 GiB).": "InsufficientGpuMemory",
    "ValueError: No available memory for the cache blocks.": "InsufficientGpuMemory",
    "ValueError: To serve at least one request with the models's max seq len (4096), (2.0 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (1.0 GiB).": "KvCacheTooSmall",
    "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV "
    "cache (2048).": "KvCacheTooSmall",
    "ValueError: Cannot auto-fit max_model_len: not enough memory": "InsufficientGpuMemory",
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.": (
        "InsufficientGpuMemory"
    ),
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": "InsufficientGpuMemory",
    "AssertionError: Error in memory profiling. Initial free memory 3 GiB": "MemoryChanged",
    "TimeoutError: Timed out waiting for engine core processes to start.": "EngineSlow",
    "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig": "AttentionBackend",
    "ValueError: There is no module or parameter named 'x' in LlamaForCausalLM": "CheckpointMismatch",
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:1": "Interconnect",
    "ImportError: libcuda.so.1: cannot open shared object file": "Driver",
    "TimeoutError: RPC call to execute_model timed out.": "WorkerHang",
}


@pytest.mark.parametrize(("text", "reason"), SAMPLES.items())
def test_each_known_wording_has_its_reason(text: str, reason: str) -> None:
    line = f"vllm serve: error: {text}" if "rgument" in text[:12] else text
    failure = explain(f"INFO starting\n{line}\n", 1)
    assert failure.reason == reason
    assert "{" not in failure.message + failure.fix


def test_the_table_has_no_row_without_a_sample() -> None:
    recorded = [explain(log.read_text(encoding="utf-8"), 1).reason for log in sorted(LOGS.glob("log_fail_*.log"))]
    assert {row.reason for row in TABLE} - set(SAMPLES.values()) - set(recorded) == {"BadTransferParameters"}


def test_a_usage_error_names_the_flag() -> None:
    failure = explain("usage: vllm [options]\nvllm: error: unrecognized arguments: --swap-space 4\n", 2)
    assert failure.message == "This engine version doesn't know --swap-space 4."


def test_an_unknown_error_is_shown_as_it_is() -> None:
    failure = explain("(EngineCore pid=7) ERROR 11-30 21:00:00 [core.py:1] KeyError: 'surprise'\n", 1)
    assert (failure.reason, failure.line) == ("EngineError", "KeyError: 'surprise'")
    assert "KeyError: 'surprise'" in failure.message


def test_a_wrapper_is_never_the_cause() -> None:
    wrapper = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    assert explain(wrapper, 1).line is None


def test_a_bare_assertion_without_a_place_is_still_a_cause() -> None:
    assert explain("Traceback (most recent call last):\nAssertionError\n", 1).line == "AssertionError"


def test_an_error_of_one_request_does_not_explain_a_later_kill() -> None:
    log = "INFO:     Application startup complete.\nValueError: bad request\n"
    assert explain(log, -9).reason == "Killed"
    assert "out-of-memory" in explain(log, -9).fix


def test_a_log_whose_start_is_cut_off_is_still_known_to_have_served() -> None:
    log = (
        "(APIServer pid=7) INFO 11-30 21:00:00 [l.py:1] Engine 000: Avg prompt throughput: 0.0\nValueError: a request\n"
    )
    assert explain(log, -9).reason == "Killed"


def test_a_known_killer_after_serving_is_recognised() -> None:
    log = "INFO:     Application startup complete.\nValueError: bad request\ntorch.OutOfMemoryError: no memory\n"
    assert explain(log, 0).reason == "InsufficientGpuMemory"


def test_a_crash_at_run_time_is_explained_by_what_follows_the_fatal_error() -> None:
    log = (
        "INFO:     Application startup complete.\nValueError: of a request\n"
        "(EngineCore pid=7) ERROR 11-30 21:00:00 [core.py:1512] EngineCore encountered a fatal error.\n"
        "(EngineCore pid=7) ERROR 11-30 21:00:00 [core.py:1512] IndexError: out of bounds\n"
    )
    assert explain(log, 0).line == "IndexError: out of bounds"


def test_what_clients_and_configurations_write_is_no_cause() -> None:
    log = (
        "(EngineCore pid=7) INFO 11-30 21:00:00 [core.py:1] config: trust_remote_code=True\n"
        'INFO:     127.0.0.1:1 - "GET /libcuda HTTP/1.1" 404 Not Found\n'
    )
    assert explain(log, 3).line is None


def test_a_known_line_without_an_error_name_is_found() -> None:
    log = "(Worker pid=7) ERROR 11-30 21:00:00 [gpu.py:1] Failed to load model - not enough GPU memory. Try lowering.\n"
    assert explain(log, 1).reason == "InsufficientGpuMemory"


@pytest.mark.parametrize(
    ("status", "reason"),
    [(None, "ProcessLost"), (0, "ProcessExited"), (-11, "Crashed"), (-6, "Aborted"), (-15, "Terminated")],
)
def test_a_silent_log_leaves_the_exit_status(status: int | None, reason: str) -> None:
    assert explain("", status).reason == reason

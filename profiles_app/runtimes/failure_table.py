"""The known ways in which vLLM fails, as its own words to a reason, a sentence and a fix (pure).

Source strings of vLLM 0.32, with older wordings where they differ. Left out: warnings, and what only fails a request.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signature:
    """One failure. In `message`, `{1}` is the pattern's first group."""

    reason: str
    pattern: re.Pattern[str]
    message: str
    fix: str


def _row(reason: str, pattern: str, message: str, fix: str) -> Signature:
    return Signature(reason, re.compile(pattern), message, fix)


_LESS_MEMORY = (
    "Raise the memory share if others leave room, use more GPUs a replica, lower max sequences or batched tokens, "
    "quantize the weights, or switch graphs off (enforce eager)."
)

TABLE: tuple[Signature, ...] = (
    _row(
        "UnknownFlag",
        r"unrecognized arguments: (.+)",
        "This engine version doesn't know {1}.",
        "Drop or rename the option, or choose an engine version that has it.",
    ),
    _row(
        "InvalidChoice",
        r"argument (?:-\w+/)?(--[\w-]+).*?: invalid choice: '(.+?)'",
        "{1} can't be {2} in this engine version.",
        "Take one of the values that the log line lists.",
    ),
    _row(
        "InvalidArgument",
        r"argument (?:-\w+/)?(--[\w-]+)[^:]*: (.+)",
        "{1} was refused: {2}",
        "Correct the option's value.",
    ),
    _row(
        "UnknownQuantization",
        r"Unknown quantization method: (\S+)\.",
        "This engine has no quantization method {1}.",
        "Correct the name, install the plug-in that brings it, or use another checkpoint.",
    ),
    _row(
        "QuantizationMismatch",
        r"Quantization method specified in the model config \((.+?)\) does not match .* \((.+?)\)",
        "The checkpoint is quantized as {1}, but the profile asks for {2}.",
        "Leave the quantization to the checkpoint.",
    ),
    _row(
        "GpuTooOld",
        r"quantization method (\S+) is not supported for the current GPU\. "
        r"Minimum capability: (\d+)\. Current capability: (\d+)",
        "Quantization {1} needs compute capability {2} (times ten); this GPU has {3}.",
        "Use a newer GPU or another quantization.",
    ),
    _row(
        "GpuTooOld",
        r"Quantization scheme is not supported for the current GPU",
        "This GPU can't compute in the checkpoint's quantization.",
        "Use a newer GPU or another quantization.",
    ),
    _row(
        "DtypeUnsupported",
        r"(\S+) is not supported for quantization method (\S+)\. Supported dtypes",
        "Quantization {2} doesn't work with the data type {1}.",
        "Choose one of the data types that the log line lists.",
    ),
    _row(
        "ContextTooLong",
        r"User-specified max_model_len \((\d+)\) is greater than the derived max_model_len \(.*?=(\d+)",
        "A context of {1} tokens is asked for, but the model has {2}.",
        "Lower the maximum context to the model's, or scale its positions on purpose.",
    ),
    _row(
        "BatchBounds",
        r"max_num_batched_tokens \((\d+)\) "
        r"(?:is smaller than max_model_len|must be greater than or equal to max_num_seqs)",
        "At most {1} batched tokens is too few for the context or the number of sequences.",
        "Raise the maximum of batched tokens, or lower the other two.",
    ),
    _row(
        "TensorParallelSize",
        r"Total number of attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)",
        "The model's {1} attention heads can't be divided over {2} GPUs.",
        "Choose a tensor parallel size that divides {1}.",
    ),
    _row(
        "TooFewGpus",
        r"World size \((\d+)\) is larger than the number of available GPUs \((\d+)\)",
        "The replica needs {1} GPUs and sees {2}.",
        "Lower the parallel sizes, or place it where there are more GPUs.",
    ),
    _row(
        "DtypeUnsupported",
        r"Bfloat16 is only supported on GPUs with compute capability of at least 8\.0",
        "This GPU is too old for bf16.",
        "Set the precision to fp16.",
    ),
    _row(
        "ModelUnsupported",
        r"Model architectures \[(.+?)\] are not supported for now",
        "This engine version doesn't support the architecture {1}.",
        "Use a newer engine version.",
    ),
    _row(
        "ModelUnsupported",
        r"Model architectures \[(.+?)\] failed to be inspected",
        "The engine could not load its code for the architecture {1}.",
        "Read the lines above it in the log: most often a package is missing in the engine's environment.",
    ),
    _row(
        "ModelNotFound",
        r"HFValidationError: Repo id must be in the form.*?: '([^']+)'",
        "There is no model at {1} on this node.",
        "Correct the path, or copy the model to the node.",
    ),
    _row(
        "WeightsMissing",
        r"Cannot find any model weights with",
        "The model's folder holds no weights: the download is incomplete.",
        "Fetch the model again.",
    ),
    _row(
        "ModelAccess",
        r"GatedRepoError|401 Client Error|403 Client Error",
        "The model hub refused the download.",
        "Accept the model's licence with the account whose token the node uses, and check the token.",
    ),
    _row(
        "ModelNotFound",
        r"LocalEntryNotFoundError|offline mode is enabled",
        "The model is not in this node's cache, and the node doesn't download.",
        "Fetch the model to the node first.",
    ),
    _row(
        "RemoteCode",
        r"trust_remote_code=True|--trust-remote-code",
        "The model brings its own program code, and running it isn't allowed.",
        "Decide whether you trust the code, and allow it in the profile if so; or use another model.",
    ),
    _row(
        "PortTaken",
        r"\[Errno 98\] Address already in use",
        "The engine's port (or its socket file) is in use by another process.",
        "The next start takes another port; find out who listens on this one if it happens again.",
    ),
    _row(
        "SleepUnsupported",
        r"Sleep mode is not supported on current platform",
        "This platform has no sleep mode.",
        "Switch sleep mode off.",
    ),
    _row(
        "EngineInstall",
        r"No package metadata was found for vllm",
        "The engine's installation lacks its package metadata.",
        "Repair the engine install: the distribution named vllm has to be registered in its environment.",
    ),
    _row(
        "EngineInstall",
        r"operator torchvision::nms does not exist",
        "The engine's environment mixes a CPU torch with a CUDA torchvision.",
        "Remove torchvision, torchaudio and torchcodec from the engine's environment.",
    ),
    _row(
        "InsufficientGpuMemory",
        r"Free memory on device (?:\S+ )?\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired GPU memory "
        r"utilization \(([\d.]+), ([\d.]+) GiB\)",
        "Only {1} of {2} GiB of the GPU are free, and the profile asks for {4} GiB (a share of {3}).",
        "See which processes hold the GPU: end them, or lower the memory share.",
    ),
    _row(
        "InsufficientMemory",
        r"Available memory on node (\d+) \(([\d.]+)/([\d.]+) GiB\) on startup is less than desired CPU memory "
        r"utilization \(([\d.]+), ([\d.]+) GiB\)",
        "Only {2} of {3} GiB of the host's memory are free, and the engine asks for {5} GiB (a share of {4}).",
        "Set the size of the KV cache in bytes in the profile.",
    ),
    _row(
        "InsufficientGpuMemory",
        r"No available memory for the cache blocks",
        "Weights and activations fill the memory that the profile gives; nothing is left for the KV cache.",
        _LESS_MEMORY,
    ),
    _row(
        "KvCacheTooSmall",
        r"max seq len \((\d+)\), \(([\d.]+) GiB KV cache is needed, which is larger than the available KV cache memory "
        r"\(([\d.]+) GiB\)\. Based on the available memory, the estimated maximum model length is (\d+)",
        "One request of {1} tokens needs {2} GiB of KV cache, and there are {3} GiB: room for about {4} tokens.",
        "Set the maximum context to {4} or less, give the KV cache more memory, or make it fp8.",
    ),
    _row(
        "KvCacheTooSmall",
        r"max seq len \((\d+)\), \(([\d.]+) GiB KV cache is needed, which is larger than the available KV cache memory "
        r"\(([\d.]+) GiB\)",
        "One request of {1} tokens needs {2} GiB of KV cache, and there are {3} GiB.",
        "Lower the maximum context, give the KV cache more memory, or make it fp8.",
    ),
    _row(
        "KvCacheTooSmall",
        r"max seq len \((\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((\d+)\)",
        "One request may have {1} tokens, and the KV cache holds {2}.",
        "Set the maximum context to {2} or less, give the KV cache more memory, or make it fp8.",
    ),
    _row(
        "InsufficientGpuMemory",
        r"Cannot auto-fit max_model_len",
        "Not even one token of context fits beside the weights.",
        _LESS_MEMORY,
    ),
    _row(
        "InsufficientGpuMemory",
        r"CUDA out of memory occurred when warming up sampler with (\d+) dummy requests",
        "The GPU ran out of memory warming up for {1} sequences at once.",
        "Lower the maximum of sequences, or the memory share.",
    ),
    _row(
        "InsufficientGpuMemory",
        r"Failed to load model - not enough GPU memory|OutOfMemoryError|CUDA out of memory",
        "The model's weights don't fit into the GPU's free memory.",
        _LESS_MEMORY,
    ),
    _row(
        "MemoryChanged",
        r"Error in memory profiling\. Initial free memory",
        "Another process changed its memory on this GPU while the engine measured it.",
        "Start the engines of one GPU one after the other.",
    ),
    _row(
        "EngineSlow",
        r"Timed out waiting for engine core processes to",
        "The engine's own time for starting ran out: a huge model or a slow disk.",
        "Raise VLLM_ENGINE_READY_TIMEOUT_S and the profile's start timeout.",
    ),
    _row(
        "AttentionBackend",
        r"No valid attention backend found for|Selected backend (?:\S+) is not valid for",
        "No attention kernel fits this mix of GPU, head size and KV cache type.",
        "Leave the attention backend to the engine, or choose another KV cache type.",
    ),
    _row(
        "CheckpointMismatch",
        r"There is no module or parameter named",
        "The checkpoint doesn't fit the model's code: a wrong file or an unsupported quantization.",
        "Check the model's files and its quantization.",
    ),
    _row(
        "Interconnect",
        r"NCCL error|ncclUnhandledSystemError|ncclInvalidUsage|DistNetworkError",
        "The GPUs could not talk to each other.",
        "Set NCCL_DEBUG=INFO and read the log; check the fabric, the locked-memory limit and the size of /dev/shm.",
    ),
    _row(
        "Driver",
        r"libcuda|CUDA driver version is insufficient|no kernel image is available",
        "The GPU driver doesn't fit this engine build.",
        "Update the driver, or choose an engine build for this GPU.",
    ),
    _row(
        "WorkerHang",
        r"RPC call to (execute_model|sample_tokens) timed out",
        "A worker of the engine hung in {1}.",
        "The replica is restarted; if it happens again, lower the load, switch speculation off, or check the fabric.",
    ),
    _row(
        "QuantizationUnsupported",
        r"_C::static_scaled_fp8_quant\(\) expected at most",
        "The CPU build of the engine has no fp8 kernels.",
        "Use another precision on CPU nodes.",
    ),
    _row(
        "BadTransferParameters",
        r"AssertionError at .*nixl/pull_scheduler\.py:\d+",
        "A request's kv_transfer_params ended the engine.",
        "Let clients reach the engine only through the gateway, which strips that field.",
    ),
)

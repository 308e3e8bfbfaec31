"""Runs in the engine's interpreter, not in ours: turns one GGUF file into bf16 safetensors with its tokenizer."""

import sys
from pathlib import Path

import torch  # type: ignore[import-not-found]  # only the engine's environment has it
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # type: ignore[import-not-found]  # likewise


def convert(source: Path, target: Path) -> None:
    """Dequantise `source` into the folder `target`; says each step on a line of its own."""
    folder, name = str(source.parent), source.name
    say("reading the tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    say("dequantising the weights to bf16")
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    say("writing the weights")
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def say(text: str) -> None:
    """One step, for the parent that reads our output."""
    sys.stdout.write(f"STEP {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))

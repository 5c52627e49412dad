"""What the comparisons with other CPU engines share: the engines, fetched and built, and the models as files."""
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CACHE = pathlib.Path(os.environ.get("INGOT_CACHE", pathlib.Path.home() / ".cache/ingot"))
PEERS = CACHE / "peers"
MODELS = {"smollm2-q4_1": "SmolLM2-135M-Instruct Q4_1",
          "1b-q4_0": "Llama-3.2-1B shape, random Q4_0",
          "1b-q8_0": "Llama-3.2-1B shape, random Q8_0",
          "1b-bf16": "Llama-3.2-1B shape, random BF16"}
LLAMA_OPTIONS = ("-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_COMMON=ON",
                 "-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_BUILD_SERVER=ON", "-DLLAMA_BUILD_EXAMPLES=OFF",
                 "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_BUILD_UI=OFF",
                 "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF")


def say(text):
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)


def run(*command, **options):
    """Standard output of a command that must succeed; its messages are shown only when it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def venv_python():
    python = PEERS / "venv/bin/python"
    if not (PEERS / "venv/.complete").exists():
        say("installing openvino-genai from PyPI")
        run(sys.executable, "-m", "venv", PEERS / "venv")
        run(python, "-m", "pip", "install", "--quiet", "openvino-genai", "numpy")
        (PEERS / "venv/.complete").touch()
    return python


def llama_tool(name):
    tool = PEERS / "llama.cpp/bin" / name
    if not tool.exists():
        source = run(ROOT / "scripts/fetch_llama_cpp_assets", "--source").strip()
        say("building llama.cpp for this processor (about 8 minutes)")
        run("cmake", "-S", source, "-B", PEERS / "llama.cpp", *LLAMA_OPTIONS)
        run("cmake", "--build", PEERS / "llama.cpp", "-j", os.cpu_count(), "--target", "llama-bench",
            "--target", "llama-completion", "--target", "llama-server")
    return tool


def gguf_of(model):
    if model == "smollm2-q4_1":
        return pathlib.Path(run(ROOT / "scripts/fetch_smollm2").strip())
    path = PEERS / f"{model}.gguf"
    if not path.exists():
        vocabularies = run(ROOT / "scripts/fetch_llama_cpp_assets").strip()
        say(f"writing {path.name}")
        run(venv_python(), ROOT / "bench/peers/random_gguf.py", f"{vocabularies}/ggml-vocab-llama-bpe.gguf",
            model.removeprefix("1b-"), path)
    return path


def engine_of(model, ingot):
    """A fresh engine file: what is measured is what this build of Ingot makes."""
    path = PEERS / f"{model}.ingot"
    say(f"ingot build {model}")
    path.unlink(missing_ok=True)
    run(ingot, "build", gguf_of(model), "--out", path, "--target", "cpu")
    return path


def spread(values, digits):
    return f"{statistics.median(values):,.{digits}f} [{min(values):,.{digits}f}-{max(values):,.{digits}f}]"

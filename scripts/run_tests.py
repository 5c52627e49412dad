#!/usr/bin/env python3
"""Runs the stages of scripts/test and scripts/soak and counts what passed.

usage: run_tests.py [--list] [--fuzz-seconds N] [--repeat N] [--request-seconds N] [--promise-times N] [STAGE...]

A stage prints one line, fuzz, repeat and requests one more for each program. The full output goes to
build/test-logs/<stage>.log, and its end is shown when the stage fails. The last line is
'N passed, N failed, N skipped' over all stages; the exit code is 0 only when nothing failed.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "test-logs"
JOBS = os.cpu_count() or 2

# What the sanitizers cover: what parses untrusted bytes, schedules, and shares memory between threads.
ASAN_FLOORS = ("base", "text", "grammar", "formats", "ir", "plan", "builder", "runtime")
TSAN_FLOORS = {"base": "*", "runtime": "*", "text": "*Thread*:*Concurrent*", "grammar": "Compiler*",
               "cpu": "*Thread*:*LinearTierTest*:*ARowHas*/*_q4_0:*ARowHas*/*_int8:LinearWorkspace*:*UnpackInverts*"}
# Processors that are tried under qemu: without AVX, and with AVX2 but nothing above.
OLD_CPUS = {"Nehalem": "generic", "Haswell": "avx2"}

SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


# The sanitizers of g++ 12 want the addresses that they count on: with much randomness in them (vm.mmap_rnd_bits of 32, as
# newer systems set it) a program now and then dies before its first line.
FIXED_ADDRESSES = ("setarch", "-R")


class Tally:
    """Counts of one stage, with the names of what failed."""

    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []
        self.note = ""
        self.details = []  # lines below the stage's own
        self.outputs = []  # (name, the end of what it printed) of each program that failed

    def record(self, ok, name):
        if ok:
            self.passed += 1
        else:
            self.failures.append(name)


class Log:
    """Runs commands with their output in one file."""

    def __init__(self, stage):
        self.path = LOGS / f"{stage}.log"
        self.file = open(self.path, "wb")

    def run(self, *command, env=None, timeout=3600, stdout=None):
        self.file.flush()
        self.last = self.path.stat().st_size  # where the newest command begins
        self.file.write(("$ " + " ".join(map(str, command)) + "\n").encode())
        self.file.flush()
        try:
            done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                                  stdout=stdout or self.file, stderr=self.file, timeout=timeout,
                                  env={**os.environ, **SANITIZER_ENVIRONMENT, **(env or {})})
        except subprocess.TimeoutExpired:
            self.file.write(f"stopped after {timeout} s\n".encode())
            return False
        except OSError as error:
            self.file.write(f"{error}\n".encode())
            return False
        return done.returncode == 0

    def tail(self, lines=40, start=0):
        self.file.flush()
        return "\n".join(self.path.read_bytes()[start:].decode("utf-8", "replace").splitlines()[-lines:])

    def tail_of_last(self, lines=40):
        """The end of what the newest command printed."""
        return self.tail(lines, self.last)


def configure_and_build(log, preset, *targets, configure=()):
    if not log.run("cmake", "--preset", preset, *configure):
        return False
    words = [word for target in targets for word in ("--target", target)]
    return log.run("cmake", "--build", "--preset", preset, "-j", JOBS, *words)


def has_tests(floor):
    return any((ROOT / "tests" / floor).glob("*_test.cc"))


def run_gtest(log, tally, program, *arguments, prefix=(), env=None, timeout=1200):
    """Runs one GoogleTest program and counts its tests. A crash is one failure more."""
    report = LOGS / f"{program.name}.{os.getpid()}.json"
    report.unlink(missing_ok=True)
    ok = log.run(*prefix, program, "--gtest_brief=1", f"--gtest_output=json:{report}", *arguments, env=env,
                 timeout=timeout)
    failed_before = len(tally.failures)
    if report.exists():
        for suite in json.loads(report.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                if test["result"] == "SKIPPED":
                    tally.skipped += 1
                elif test["result"] == "COMPLETED":
                    tally.record(not test.get("failures"), f"{suite['name']}.{test['name']}")
        report.unlink()
    if not ok and len(tally.failures) == failed_before:
        tally.failures.append(f"{program.name} stopped")
    if not ok:
        tally.outputs.append((program.name, log.tail_of_last()))


def stage_check(log, tally, options):
    """What needs no build: format, floors, sizes, texts."""
    tally.record(log.run("scripts/check"), "scripts/check")


def stage_assets(log, tally, options):
    """Real models and vocabularies. Tests that want them skip themselves where the network does not bring them."""
    for script in ("fetch_smollm2", "fetch_llama_cpp_assets"):
        if log.run(f"scripts/{script}", timeout=900):
            tally.passed += 1
        else:
            tally.skipped += 1
            tally.note += f" {script} brought nothing (no network?): tests that need it skip;"


def stage_release(log, tally, options):
    """The release build."""
    tally.record(configure_and_build(log, "release"), "release build")


def stage_headers(log, tally, options):
    """Every header compiles alone."""
    tally.record(configure_and_build(log, "release", "headers"), "every header compiles alone")


def stage_install(log, tally, options):
    """cmake --install gives a command that starts."""
    place = BUILD / "test-install"
    shutil.rmtree(place, ignore_errors=True)
    ok = log.run("cmake", "--install", BUILD / "release", "--prefix", place)
    tally.record(ok and log.run(place / "bin/ingot", "--help"), "cmake --install gives bin/ingot")


def traps(folder, names):
    """A folder for the front of PATH whose programs note that they were called, and fail."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >> "{folder}/called"\nexit 1\n')
        (folder / name).chmod(0o755)
    return folder


def source_archive(place):
    """Copies what an archive of the sources holds: the tracked files, and nothing of git."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in tracked.decode().split("\0")[:-1]:
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)


def stage_archive(log, tally, options):
    """A source archive in a folder with blanks builds without git, Python and network, and writes only its build folder."""
    work = BUILD / "test archive"
    shutil.rmtree(work, ignore_errors=True)
    place = work / "ingot 0"
    place.mkdir(parents=True)
    if not (ROOT / ".git").exists():
        tally.skipped += 1
        tally.note += " not a git checkout;"
        return
    source_archive(place)
    before = sorted(place.rglob("*"))
    trapped = traps(work / "traps", ("git", "python", "python3", "curl", "wget"))
    env = {"PATH": f"{trapped}:{os.environ['PATH']}"}
    # Without a network where the system lets a user have a namespace of his own.
    alone = ("unshare", "-rn") if log.run("unshare", "-rn", "true") else ()
    options = ("-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON", "-DINGOT_BENCH=OFF")
    ok = log.run(*alone, "cmake", "-S", place, "-B", place / "build/release", "-G", "Ninja", *options, env=env)
    ok = ok and log.run(*alone, "cmake", "--build", place / "build/release", "-j", JOBS, "--target", "ingot",
                        "base_test", env=env)
    tally.record(ok, "a source archive builds")
    tally.record(ok and log.run(*alone, place / "build/release/tests/base_test", "--gtest_brief=1"), "its tests pass")
    tally.record(ok and log.run(*alone, place / "build/release/ingot", "logits", place / "tests/fixtures/models/llama",
                                "--tokens", "1,2,3", "-o", work / "logits.npy",
                                env={"INGOT_CACHE": str(work / "cache")}), "what it builds runs")
    tally.record(not (trapped / "called").exists(), "neither git nor Python nor a download is called")
    after = sorted(path for path in place.rglob("*") if (place / "build") not in (path, *path.parents))
    tally.record(after == before, "nothing is written beside the build folder")


def stage_clang(log, tally, options):
    """Everything but the tests compiles with clang, and a tiny model runs."""
    build = BUILD / "clang"
    ok = log.run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++-19",
                 "-DCMAKE_C_COMPILER=clang-19", "-DINGOT_TESTS=OFF", "-DINGOT_BENCH=OFF")
    ok = ok and log.run("cmake", "--build", build, "-j", JOBS)
    tally.record(ok, "clang build")
    tally.record(ok and log.run(build / "ingot", "logits", ROOT / "tests/fixtures/models/llama", "--tokens", "1,2,3",
                                "-o", LOGS / "clang.npy"), "what clang built runs")


def stage_units(log, tally, options):
    """Every floor's tests, in the release build."""
    report = LOGS / "units.xml"
    report.unlink(missing_ok=True)
    ok = log.run("ctest", "--preset", "release", "-j", JOBS, "--output-junit", report)
    failed_before = len(tally.failures)
    if report.exists():
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            skipped = case.find("skipped")
            # A test that could not be started is reported as skipped too, with another message.
            if skipped is not None and "SKIP_REGULAR_EXPRESSION" in skipped.get("message", ""):
                tally.skipped += 1
            else:
                tally.record(case.get("status") == "run", case.get("name"))
    if not ok and len(tally.failures) == failed_before:
        tally.failures.append("ctest stopped")


def cpu_tier(report):
    """The tier that a report of `ingot devices --json` says is used."""
    try:
        return json.loads(report.read_text())["cpu"]["tier"]
    except (ValueError, KeyError, TypeError):
        return None


def stage_old_cpus(log, tally, options):
    """The command starts on processors without AVX-512 or AVX, names the right tier, and computes."""
    if not shutil.which("qemu-x86_64"):
        tally.failures.append("qemu-x86_64 is missing (scripts/deps)")
        return
    ingot = BUILD / "release/ingot"
    for cpu, tier in OLD_CPUS.items():
        prefix = ("qemu-x86_64", "-cpu", cpu)
        report = LOGS / f"devices.{cpu}.json"
        with open(report, "wb") as file:
            ok = log.run(*prefix, ingot, "devices", "--json", stdout=file)
        tally.record(ok and cpu_tier(report) == tier, f"devices on {cpu} uses {tier}")
        out = LOGS / f"logits.{cpu}.npy"
        out.unlink(missing_ok=True)
        ok = log.run(*prefix, ingot, "logits", ROOT / "tests/fixtures/models/llama", "--tokens", "1,2,3,4", "-o", out)
        tally.record(ok and out.exists(), f"logits on {cpu}")
        run_gtest(log, tally, BUILD / "release/tests/cpu_test", "--gtest_filter=Tier.*:CpuRows.*", prefix=prefix)


def stage_kernels(log, tally, options):
    """Compiles every CUDA kernel for every architecture; needs NVRTC but no GPU."""
    ok = log.run("scripts/check_kernels")
    counted = re.findall(r"^(?:\w+: )?(\d+) passed, (\d+) failed", log.tail(20), re.M)
    if counted:
        tally.passed += int(counted[-1][0])
        tally.failures += ["kernel"] * int(counted[-1][1])
    if not counted or (not ok and not tally.failures):
        tally.record(ok and counted, "scripts/check_kernels")


def stage_schemas(log, tally, options):
    """Structured output of random JSON Schemas is valid under PyPI's jsonschema."""
    ok = log.run("scripts/check_schemas")
    counted = re.findall(r"^(\d+) passed, (\d+) failed", log.tail(20), re.M)
    if counted:
        tally.passed += int(counted[-1][0])
        tally.failures += ["schema"] * int(counted[-1][1])
    if not counted or (not ok and not tally.failures):
        tally.record(ok and counted, "scripts/check_schemas")


def use_at_random(log, tally, preset, seconds):
    """Engines under random use from several threads. Prints how many rounds there were and what they did."""
    report = LOGS / f"random_requests.{preset}.txt"
    with open(report, "wb") as file:
        ok = log.run(*FIXED_ADDRESSES, BUILD / preset / "tests/random_requests", seconds, stdout=file, timeout=seconds + 600)
    lines = report.read_text("utf-8", "replace").splitlines()
    requests = sum(int(count) for line in lines for count in re.findall(r": (\d+) submitted", line))
    tally.record(ok and requests > 0, f"random requests, {preset} ({lines[-1] if lines else 'no round ended'})")
    tally.details.append(f"random requests, {preset:<5} {len(lines):>9} engines, {requests} requests in {seconds} s"
                         f" {'passed' if ok else 'FAILED'}")


def stage_asan(log, tally, options):
    """What parses, plans and schedules, under AddressSanitizer and UndefinedBehaviorSanitizer."""
    floors = [floor for floor in ASAN_FLOORS if has_tests(floor)]
    built = configure_and_build(log, "asan", "random_requests", *(f"{floor}_test" for floor in floors))
    tally.record(built, "asan build")
    for floor in floors if built else ():
        run_gtest(log, tally, BUILD / f"asan/tests/{floor}_test", prefix=FIXED_ADDRESSES)
    if built:
        use_at_random(log, tally, "asan", options.request_seconds)


def stage_tsan(log, tally, options):
    """What shares memory between threads, under ThreadSanitizer."""
    floors = [floor for floor in TSAN_FLOORS if has_tests(floor)]
    built = configure_and_build(log, "tsan", "random_requests", *(f"{floor}_test" for floor in floors))
    tally.record(built, "tsan build")
    for floor in floors if built else ():
        run_gtest(log, tally, BUILD / f"tsan/tests/{floor}_test", f"--gtest_filter={TSAN_FLOORS[floor]}",
                  prefix=FIXED_ADDRESSES)
    if built:
        use_at_random(log, tally, "tsan", options.request_seconds)


def fuzz_one(name, seconds):
    """Runs one target over the kept corpus. Returns whether it found nothing, a line of counts, and the log."""
    work = BUILD / "fuzz/corpus" / name
    kept = ROOT / "tests/fuzz/corpus" / name
    findings = BUILD / "fuzz/findings"
    for folder in (work, findings):
        folder.mkdir(parents=True, exist_ok=True)
    entries_before = len(list(work.iterdir()))
    found_before = set(findings.glob(f"{name}-*"))
    log = Log(f"fuzz-{name}")
    dictionary = ROOT / f"tests/fuzz/{name}.dict"
    words = [f"-dict={dictionary}"] if dictionary.exists() else []
    ok = log.run(BUILD / f"fuzz/tests/{name}_fuzz", f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048",
                 "-print_final_stats=1", f"-artifact_prefix={findings}/{name}-", *words, work,
                 *([kept] if kept.is_dir() else []), timeout=seconds + 120)
    runs = re.findall(r"stat::number_of_executed_units: (\d+)", log.tail())
    entries = len(list(work.iterdir()))
    found = sorted(set(findings.glob(f"{name}-*")) - found_before)
    line = (f"{name + '_fuzz':<22}{runs[-1] if runs else '?':>9} runs  corpus {entries} (+{entries - entries_before})"
            f"  {len(found)} findings{''.join(f' {path.relative_to(ROOT)}' for path in found)}")
    # A target that ran nothing has not shown anything, whatever it returned.
    return ok and bool(runs) and int(runs[-1]) > 0, line, log


def stage_fuzz(log, tally, options):
    """Every reader of bytes from outside, 20 seconds each, from the kept corpus."""
    names = sorted(path.name[:-len("_fuzz.cc")] for path in (ROOT / "tests/fuzz").glob("*_fuzz.cc"))
    built = configure_and_build(log, "fuzz", "fuzzers")
    tally.record(built, "fuzz build")
    if not built:
        return
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results = dict(zip(names, pool.map(lambda name: fuzz_one(name, options.fuzz_seconds), names)))
    for name, (ok, line, target_log) in results.items():
        tally.record(ok, f"{name}_fuzz (build/fuzz/findings, {target_log.path.name})")
        tally.details.append(line)
        if not ok:
            log.file.write(target_log.tail().encode())


def stage_repeat(log, tally, options):
    """Threads and schedules again and again, in random order, under ThreadSanitizer."""
    floors = [floor for floor in TSAN_FLOORS if has_tests(floor)]
    built = configure_and_build(log, "tsan", *(f"{floor}_test" for floor in floors))
    tally.record(built, "tsan build")
    for floor in floors if built else ():
        begin = time.monotonic()
        ok = log.run(*FIXED_ADDRESSES, BUILD / f"tsan/tests/{floor}_test", f"--gtest_filter={TSAN_FLOORS[floor]}",
                     f"--gtest_repeat={options.repeat}", "--gtest_shuffle", "--gtest_brief=1", "--gtest_break_on_failure",
                     timeout=60 * max(options.repeat, 20))
        tally.record(ok, f"{floor}_test {options.repeat} times")
        tally.details.append(f"{floor + '_test':<22}{options.repeat:>9} rounds {'passed' if ok else 'FAILED'}"
                             f" in {time.monotonic() - begin:.0f} s")


def stage_requests(log, tally, options):
    """Requests submitted, read, cancelled and dropped at random, under AddressSanitizer and ThreadSanitizer."""
    for preset in ("asan", "tsan"):
        built = configure_and_build(log, preset, "random_requests")
        tally.record(built, f"{preset} build")
        if built:
            use_at_random(log, tally, preset, options.request_seconds)


def stage_long(log, tally, options):
    """A prompt of 32,768 tokens through all 30 layers of SmolLM2's shape, in the memory that the plan names."""
    built = configure_and_build(log, "release", "llm_test")
    tally.record(built, "release build")
    if built:
        run_gtest(log, tally, BUILD / "release/tests/llm_test", "--gtest_filter=LongPromptTest.*",
                  env={"INGOT_LONG_PROMPT_LAYERS": "30"}, timeout=3600)


def stage_promise(log, tally, options):
    """The promise of equal bits on many more random cases, from a seed of chance."""
    built = configure_and_build(log, "release", "llm_test")
    tally.record(built, "release build")
    if not built:
        return
    seed = secrets.randbelow(1 << 31)
    begin = time.monotonic()
    run_gtest(log, tally, BUILD / "release/tests/llm_test", "--gtest_filter=*PromiseTest.*", timeout=24 * 3600,
              env={"INGOT_PROMISE_TIMES": str(options.promise_times), "INGOT_PROMISE_SEED": str(seed)})
    cases = sum(int(count) for count in re.findall(r"^(\d+) cases", log.path.read_text("utf-8", "replace"), re.M))
    tally.record(cases > 0, "cases were played")
    tally.details.append(f"promise, seed {seed:<10} {cases:>9} cases in {time.monotonic() - begin:.0f} s")


STAGES = {name[len("stage_"):]: function for name, function in list(globals().items()) if name.startswith("stage_")}
ONLY_WHEN_NAMED = ("repeat", "clang", "requests", "long", "promise")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the stages and leave")
    parser.add_argument("--fuzz-seconds", type=int, default=20, metavar="N", help="seconds a fuzz target (default 20)")
    parser.add_argument("--repeat", type=int, default=100, metavar="N", help="rounds of the repeat stage (default 100)")
    parser.add_argument("--request-seconds", type=int, default=15, metavar="N",
                        help="seconds of random requests under each sanitizer (default 15)")
    parser.add_argument("--promise-times", type=int, default=10, metavar="N",
                        help="the promise stage plays N times as many cases as units (default 10)")
    parser.add_argument("stages", nargs="*", metavar="STAGE",
                        help=f"stages to run, in this order (default: all but {', '.join(ONLY_WHEN_NAMED)})")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:<10}{(function.__doc__ or '').splitlines()[0] if function.__doc__ else ''}"
                        for name, function in STAGES.items()))
        return 0
    names = options.stages or [name for name in STAGES if name not in ONLY_WHEN_NAMED]
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")

    LOGS.mkdir(parents=True, exist_ok=True)
    passed = skipped = 0
    failures = []
    outputs = []
    begin = time.monotonic()
    for name in names:
        tally = Tally()
        log = Log(name)
        stage_begin = time.monotonic()
        STAGES[name](log, tally, options)
        took = time.monotonic() - stage_begin
        print(f"{name:<10}{took:>7.0f} s {tally.passed:>6} passed {len(tally.failures):>3} failed {tally.skipped:>3} skipped"
              f"{tally.note}", flush=True)
        for line in tally.details:
            print(f"  {line}", flush=True)
        if tally.failures:
            print(f"---- the end of {log.path.relative_to(ROOT)}:\n{log.tail()}\n----", flush=True)
        passed += tally.passed
        skipped += tally.skipped
        failures += [f"{name}: {failure}" for failure in tally.failures]
        outputs += [(f"{name}: {program}", text) for program, text in tally.outputs]
    # Once more at the very end: often only the end of what this prints is kept.
    for program, text in outputs[:5]:
        print(f"---- the end of what {program} printed:\n{text}\n----")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"total {time.monotonic() - begin:.0f} s")
    print(f"{passed} passed, {len(failures)} failed, {skipped} skipped")
    return 1 if failures or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

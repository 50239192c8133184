"""Runs the cells of a sweep on the workers of a Dask scheduler: what `lanescope sweep ... --dask ADDRESS` calls.

dask_sweep.py ADDRESS PROGRAM RESULTS -- ARGUMENT ...: ADDRESS is the scheduler's, PROGRAM lanescope, RESULTS the
results file, the arguments those of `sweep`. Every worker runs PROGRAM at the same path, or the one that its
environment names in LANESCOPE_PROGRAM, over modules that are built. A batch that a worker takes along when it
dies is run by another; lines are written here alone, once each. In the end the program itself, which finds all
cells in RESULTS, makes failures smaller and says what there is to say."""

import fcntl
import json
import os
import subprocess
import sys

try:
    from distributed import Client, KilledWorker, get_worker, wait
except ImportError:
    print("error: --dask needs Dask: pip install distributed (of the version that the scheduler has)", file=sys.stderr)
    sys.exit(3)

ENVIRONMENT, MISMATCH = 3, 4  # exit codes: the machine lacks something; another build
LARGEST_BATCH = 16  # cells
MOST_DEATHS = 3  # of workers with the same batch, after those that Dask itself allows


def run_batch(program, arguments, build, indices):
    """On a worker: its address, the exit code, the lines of the results, the error."""
    program = os.environ.get("LANESCOPE_PROGRAM", program)
    environment = {name: value for name, value in os.environ.items() if name != "LANESCOPE_NINJA"}
    command = [program, *arguments, "--workers", "1", "--build", build, "--batch", ",".join(map(str, indices))]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return get_worker().address, done.returncode, done.stdout.splitlines(), done.stderr


class Engine:
    def __init__(self, address, program, results, arguments):
        self.program, self.arguments, self.results = program, arguments, results
        done = subprocess.run([program, *arguments, "--plan"], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.returncode)
        self.plan = json.loads(done.stdout)
        try:
            self.client = Client(address, timeout=30)
        except (OSError, TimeoutError) as error:
            print(f"error: no Dask scheduler answers at {address}: {error}", file=sys.stderr)
            sys.exit(ENVIRONMENT)
        self.refused, self.deaths = set(), {}

    def open_results(self):
        """The file, and the indices that are not in it yet."""
        file = open(self.results, "ab+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"error: another sweep writes to {self.results}: give each a file of its own")
        file.seek(0)
        text = file.read()
        file.truncate(text.rfind(b"\n") + 1)  # a line that broke off
        lines = [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines()]
        own = [line for line in lines if line["sweep"] == self.plan["sweep"]]
        if any(line["build"] != self.plan["build"] for line in own):
            print(f"error: {self.results} holds cells of this sweep from another build: name another file", file=sys.stderr)
            sys.exit(MISMATCH)
        there = {line["index"] for line in own}
        return file, [index for index in self.plan["indices"] if index not in there]

    def submit(self, batch):
        """To any worker, but for those that were refused."""
        accepted = None
        if self.refused:
            accepted = [address for address in self.client.scheduler_info(n_workers=-1)["workers"] if address not in self.refused]
            if not accepted:
                print("error: every worker is of another build than this program", file=sys.stderr)
                sys.exit(MISMATCH)
        future = self.client.submit(run_batch, self.program, self.arguments, self.plan["build"], batch, pure=False, workers=accepted)
        return future, (batch, accepted)

    def result_of(self, future, batch):
        """The lines of a batch; nothing where it is to be run again."""
        try:
            address, code, lines, error = future.result()
        except KilledWorker:
            deaths = self.deaths[batch[0]] = self.deaths.get(batch[0], 0) + 1
            if deaths > MOST_DEATHS:
                sys.exit(f"error: workers die of the cells {batch}")
            return None
        if code == MISMATCH:
            if address not in self.refused:
                print(f"worker {address} is refused: {error.strip()}", file=sys.stderr, flush=True)
            self.refused.add(address)
            return None
        if code:
            print(f"worker {address}: {error.strip()}", file=sys.stderr)
            sys.exit(code)
        assert sorted(json.loads(line)["index"] for line in lines) == sorted(batch), f"worker {address} answers other cells"
        return lines

    def run(self):
        file, missing = self.open_results()
        threads = max(1, sum(self.client.nthreads().values()))
        size = max(1, min(LARGEST_BATCH, len(missing) // (4 * threads)))
        batches = [missing[i:i + size] for i in range(0, len(missing), size)]
        with file:
            running = {}
            while batches or running:
                threads = max(1, sum(self.client.nthreads().values()))
                while batches and len(running) < 2 * threads:
                    future, what = self.submit(batches.pop())
                    running[future] = what
                try:
                    ended = wait(list(running), timeout=5, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    ended = []
                alive = set(self.client.nthreads())
                for future, (batch, accepted) in list(running.items()):
                    if future in ended:
                        lines = self.result_of(future, batch)
                        if lines is None:
                            batches.append(batch)
                        else:
                            file.write("".join(line + "\n" for line in lines).encode())
                            file.flush()
                        del running[future]
                    elif accepted is not None and not alive.intersection(accepted):
                        future.cancel()  # all that it may go to are gone; others may have come
                        batches.append(batch)
                        del running[future]
        self.client.close()


def main():
    if "--" not in sys.argv or sys.argv.index("--") != 4:
        sys.exit(__doc__)
    address, program, results = sys.argv[1:4]
    arguments = sys.argv[5:]
    Engine(address, program, results, arguments).run()
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()

"""The words of the page that the simulation writes."""

PAGE = """\
# How it scales

How many jobs per second do 1 to 64 servers (masters) carry, for 10 to 10 million workspaces, how long does a job wait, and where does it bend?
`make scale` measures what each call costs a real Redis, simulates fleets with these times, and writes this page.

![Jobs per second and waits, against masters and against workspaces](../scale.svg)

In short:

- **It grows with the masters as long as there are many workspaces**: with 10 million, {largest} masters carry {all} jobs per second and one carries {one}, which is {times} times as many.
- **Few workspaces leave masters idle**: {largest} masters carry {few_rate} jobs per second for {few} workspaces, and one carries {few_one}. With 1,000 workspaces the fullest of {largest} shards has {spread} times as many as the mean.
- **A wait grows with the shards**: with free slots from {first_wait} ms in the median on one shard to {last_wait} ms on {largest}, mostly since a process that ends a job beside a free slot asks every shard for more, and hears of no wake-up meanwhile.
- **Free slots cost calls**: on {largest} shards a job that ends beside a free slot costs {empties} claims. {light} jobs per second and master keep the masters busy for {busy} % of the time.
- **More shards than masters cost waits** as more masters do. Take as few as you will need.

## What is measured, simulated and extrapolated

| | |
|---|---|
| measured | the processor time of a Redis for each call, before the simulation: a shard with 10 to {most} workspaces that have jobs of 700 bytes; the memory of a workspace; the time of the Python client for a call |
| simulated | processes with slots, with the real code that chooses shards and claims; the real scripts, on the memory engine; one queue of calls before each master, which runs one after the other for as long as was measured |
| assumed | {trip} ms for a round trip without the server's own time; producers as many as needed |
| computed | the rate in the long run, from the simulated rate and the hash, see [below](#few-workspaces-leave-masters-idle) |
| worked out between, marked † | what is not simulated on more than {all_most} masters: each shard that has workspaces carries as much as in the simulations beside it, by a line over the logarithm of the workspaces, and the real hash |
| extrapolated, marked \\* | script times where a shard has more than {most} workspaces, by a line over the logarithm of their number |

The measured times depend on the machine.
This one had {cores} cores, which others used as well, and a plain `SET` of 700 bytes in a pipeline took {plain} µs of Redis's processor.
The simulation multiplies all measured times, those of the client too, by {factor}: they are then those of a core on which that `SET` takes 1 µs, as in [sizing](sizing.md#jobs-per-second).
`python benchmarks/saturation.py` measures the `SET` on yours; all rates here are in proportion to that.

The simulation holds up to {held} workspaces with jobs; of more, these stand for all, spread over the shards as unevenly as all are.
For up to {hashed} workspaces their real names are hashed; for more, the numbers on the shards are drawn as a hash would have them.
It is the same in each run with the same prices.
Only a moment is simulated, {window} ms of full masters after a warm-up, so what builds up over seconds is not in it.

## Jobs per second

All workspaces always have more jobs than can run. Jobs take 5 ms, and there are {fill_processes} processes with {fill_slots} slots for each master that has workspaces.
A job is one publish and its part of a claim, which also ends jobs before it.

{rates}

The number of workspaces by itself costs little: beside 10 of them, each with a long lane, a call is cheaper than beside a thousand, whose lanes are nearly empty, and from there it grows with the logarithm.

What a call costs a master, in µs, by the workspaces with jobs on its shard:

{prices}

A claim that finds nothing looks at a page of the cleanup as long as there is some to look at, as on the last shard that was measured; the simulation takes what it costs on the first.

## Few workspaces leave masters idle

A workspace lives whole on one shard, so at most as many masters work as there are workspaces, and the hash is uneven.
As all workspaces get the same share, the fullest shard decides how much that is, and the others wait for it.
So in the long run masters carry what they carry in the simulated moment, divided by the part of its jobs that the fullest has too many.
How many workspaces the fullest shard has, of the mean:

{evenness}

A simulated moment is too short to show that: the emptier shards run ahead at first, and no process claims there later on, until the fullest has come after.
So it looks with {at} masters and 10 workspaces, where the rule says {rule} jobs per second:

{settled}

Longer was not simulated, so take the figures for few workspaces as what the fair order leaves at best.

## How long a job waits

From the moment at which it is stored to its start, while slots are free: median · 99th percentile.
{light} jobs per second come for each master, of any workspace, and each master has 4 processes with 8 slots; in the last column {busier} jobs per second.

{waits}

The number of workspaces does not matter here, since only those with a job have anything in Redis.
Two things grow with the shards:

- An idle process waits on all of them. When one wakes it, it ends the other waits, all at the same time, and then claims: a round trip, and {client_end} µs of its own for each shard.
- A process that ends a job while it has a free slot asks every shard for more, one after the other. A Celery worker collects ends for 5 ms for that reason, and so does the simulation.

{calls}

## More shards than masters

{at} masters. While they are full of short jobs, processes stay on a shard each, and the number of shards does not matter; where slots are free it does.

{shards}

## How many processes fill them

{at} masters, 8 slots in each process, jobs of 5 ms. Above the last step more processes only wait longer for their turn.

{processes}

## Longer jobs

A process stays on a shard for 0.1 s, to end and claim in one call. Jobs that last longer end on one shard while the next is due on another.
Here processes have 64 slots for them, and end and claim many at once, which makes up for that.

{longer}

**Looks**: each process that claims asks every shard once a second how it stands, unless the shard has told it in a claim.
Such a look costs {look} µs. So by computation {tenth} processes take a tenth of a master that has one shard, and {full_of_looks} all of it, whatever they run.
With jobs of a second, a master that carries 5,000 jobs per second needs 5,000 slots for itself: 625 processes with 8 slots, and on {largest} masters 40,000, which is too many.
So for long jobs on many shards give each process many slots, as threads or green pools do.
The claims of a process are one after the other: {client} µs of its own for each call and a round trip.

## Memory

A workspace with one waiting job of 700 bytes takes {each} bytes, measured. One without jobs and limits of its own takes nothing for long.
So 10 million workspaces with a job each take {gigabytes} GB (extrapolated), {part} GB on each of {largest} masters.

## How far to believe it

`benchmarks/shards.py` finds on real servers that three with nine shards carry 2.2–2.6 times the jobs of one, worked out from their processor time.
The simulation of the same load, worked out in the same way, gives {by_eight} with eights and {by_one} one by one.
One by one they agree where it is within that range. With eights they do not where it is above 3: calls beside the few dozen workspaces of a shard were measured as cheaper than beside hundreds, and the benchmark's servers read them from a list.
So take what many masters carry beside one, for fewer than a thousand workspaces on a shard, with care.

- No real cluster of more than three servers was measured.
- Not simulated: the network's limits, renewals, introductions, the append-only file, replicas, Celery's own time for a job, jobs that are claimed ahead.
- All workspaces have as many jobs. A real load is less even, and its largest workspace decides.
- The load of a machine disturbs what is measured. Medians of several rounds, which take turns over all sizes, are within some 20 %.
"""  # noqa: E501 - one sentence per line

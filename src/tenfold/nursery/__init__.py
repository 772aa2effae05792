"""WARM WORKERS: a small process that has the frameworks imported and forks workers from itself.

    caller ── preload, session ──> nursery ── fork ──> worker
       │                             ^                   │
       │                             └── its own session: a nested map forks from the same nursery
       └───────── tasks ─────────────────────────────────┤
       <── results: slate (shared memory), wire (socket) ┘

    client.py      caller's side: the nursery of this process     process.py   the nursery itself
    forking.py     caller's side: workers forked by a nursery      child.py     what a worker does
    spawning.py    caller's side: workers where fork is not safe   wire, slate  what travels between them
    warming.py     a nursery that outlives a script, on request    notice.py    starts one at `import torch`

The nursery imports frameworks and never uses them: no tensor is created in it, and its BLAS has one thread.
"""

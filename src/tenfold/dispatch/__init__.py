"""THE PARENT'S LOOP: feed, collect, retry, resume, show. The same for every engine.

items ──> feed ──> batches ──> crew ──> events ──> journal ──> results
           ^                              │
           └───────── again ──────────────┘
"""

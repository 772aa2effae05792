"""What it means: reports of runs, studies and measured grids, drawn from values, without a screen or a network.

    journal ─> of_run: tasks, occupied, trials ─┐
    trials  ─> of_run.of_study: of_tune         ├─> parts.Report ─> page (HTML), markdown, JSON, png
    cells   ─> of_cells ────────────────────────┘        └─ Chart ─> svg: lines, bars, surface, timeline, coordinates

A chart is a function of its width, and names its colours by class; `style` says what they are by day and by night.
Texts of users are escaped where they become markup: in `svg` and `page`, and in `markdown`.
"""

"""How the HTML report looks: one column, readable type, light, dark and on paper."""

from __future__ import annotations

STYLES = """
:root {
  --ink: #1f2328; --faint: #59636e; --paper: #ffffff; --panel: #f6f8fa; --rule: #d1d9e0;
  --link: #0969da;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ink: #e6edf3; --faint: #9198a1; --paper: #0d1117; --panel: #161b22; --rule: #30363d;
    --link: #4493f8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 54rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 0.75rem; overflow-wrap: anywhere; }
h2 {
  font-size: 1.15rem; margin: 2.75rem 0 0.75rem; padding-bottom: 0.3rem;
  border-bottom: 1px solid var(--rule);
}
p, ul { margin: 0.6rem 0; }
ul { padding-left: 1.25rem; }
li { margin: 0.2rem 0; overflow-wrap: anywhere; }
a { color: var(--link); }
.lead { font-size: 1.1rem; overflow-wrap: anywhere; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: 0.25rem 1.1rem; padding: 0; }
nav { margin: 1.25rem 0; font-size: 0.9rem; }
.figures { display: flex; flex-wrap: wrap; gap: 0.75rem; margin: 1.25rem 0; }
.figures > div {
  flex: 1 1 15rem; padding: 0.9rem 1.1rem; background: var(--panel);
  border: 1px solid var(--rule); border-radius: 8px;
}
.figures p { margin: 0; }
.figures .number { font-size: 2rem; font-weight: 650; line-height: 1.2; letter-spacing: -0.01em; }
.doubt { color: var(--faint); font-size: 0.9rem; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: 0.875em; background: var(--panel); border-radius: 4px; padding: 0.1em 0.2em; }
pre {
  font-size: 0.8rem; line-height: 1.45; background: var(--panel); border: 1px solid var(--rule);
  border-radius: 8px; padding: 0.8rem 1rem; overflow-x: auto; max-height: 36rem;
}
pre code { background: none; padding: 0; font-size: inherit; }
.wide { overflow-x: auto; margin: 0.8rem 0; }
table { border-collapse: collapse; font-size: 0.875rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem 0.35rem 0; }
th.right { white-space: normal; }
th { color: var(--faint); font-weight: 600; border-bottom: 1px solid var(--rule); }
td { border-bottom: 1px solid var(--rule); }
.right { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; overflow-x: auto; }
svg.chart { display: block; width: 100%; min-width: 36rem; height: auto; }
details { border: 1px solid var(--rule); border-radius: 8px; margin: 0.5rem 0; }
details > :not(summary) { margin-left: 1rem; margin-right: 1rem; }
summary { cursor: pointer; padding: 0.5rem 1rem; overflow-wrap: anywhere; }
details[open] > summary { border-bottom: 1px solid var(--rule); }
@media print {
  @page { margin: 18mm 16mm; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  h2 { break-after: avoid; }
  pre { max-height: none; white-space: pre-wrap; overflow-wrap: anywhere; }
  figure, .figures, tr { break-inside: avoid; }
}
""".strip()

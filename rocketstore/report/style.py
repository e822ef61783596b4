"""The style of a report page: light, dark, narrow, and printed."""

# c0 to c6 are for topics, c7 for all other topics, c8 for those of the system. The tones stand out on white and black.
COLOURS = ["#2f7fc2", "#d9731a", "#2e9e6b", "#c2489b", "#8a6fd1", "#b08a12", "#d14b4b", "#808890", "#a9b4be"]
STYLE = (
    """
:root { color-scheme: light dark; --text: #1c2126; --soft: #56606a; --line: #c9cfd6; --page: #f4f6f8; --card: #fff;
  --error: #b3261e; --warning: #8a5a00; --info: #1d5f9e; --good: #13703f; --code: #e9edf1; --track: #e9edf1; }
@media screen and (prefers-color-scheme: dark) { :root { --text: #e3e7eb; --soft: #a3adb7; --line: #3a424b;
  --page: #101418; --card: #181d23; --error: #ff8a80; --warning: #f0b64a; --info: #7db8ee; --good: #5fd39a;
  --code: #262d35; --track: #262d35; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, "Noto Sans",
  "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 16px; }
h1 { font-size: 22px; margin: 8px 0 0; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 0 0 6px; }
h3 { font-size: 15px; margin: 14px 0 4px; }
p { margin: 4px 0 10px; max-width: 80ch; overflow-wrap: anywhere; } .soft { color: var(--soft); font-weight: 400; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px;
  margin: 14px 0; position: relative; }
nav a { display: inline-block; margin: 0 12px 4px 0; } a { color: var(--info); }
.top { position: absolute; right: 16px; top: 14px; font-size: 13px; }
.verdict { border-left: 6px solid var(--line); } .verdict.good { border-left-color: var(--good); }
.verdict.bad { border-left-color: var(--error); } .verdict.fair { border-left-color: var(--warning); }
.headline { font-size: 20px; font-weight: 600; margin: 0 0 2px; } .good .headline { color: var(--good); }
.bad .headline { color: var(--error); } .fair .headline { color: var(--warning); }
.verdict p:not(.soft) { font-size: 16px; max-width: 100ch; } .verdict p.headline { font-size: 20px; }
.verdict ul { margin: 4px 0 12px; padding-left: 20px; } .verdict li { margin: 3px 0; overflow-wrap: anywhere; }
dl { display: flex; flex-wrap: wrap; gap: 6px 24px; margin: 8px 0 0; border-top: 1px solid var(--line);
  padding-top: 8px; }
dl div { min-width: 0; } dt { color: var(--soft); font-size: 13px; } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 14px 0; min-width: 0; } figcaption { font-weight: 600; margin-bottom: 4px; }
.plot { display: flex; } .plot svg { display: block; flex: 1 1 0; min-width: 0; overflow: visible; }
.plot .side { flex: 0 0 64px; width: 64px; } svg text { font-size: 12px; fill: var(--text); }
.side text { text-anchor: end; } .grid { stroke: var(--line); stroke-width: 1; opacity: .7; }
.plot rect { shape-rendering: crispEdges; }
.axis { stroke: var(--line); } .expected { stroke: var(--c1); stroke-width: 3; }
.hover { fill: transparent; } .hover:hover { fill: var(--text); fill-opacity: .09; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 4px 0 0 64px; padding: 0;
  font-size: 13px; }
.legend li { overflow-wrap: anywhere; min-width: 0; } .legend i { display: inline-block; width: 11px; height: 11px;
  margin-right: 6px; border-radius: 2px; vertical-align: -1px; }
.bars { font-size: 14px; display: grid; align-items: center; gap: 4px 12px;
  grid-template-columns: fit-content(40%) minmax(60px, 1fr) max-content; } .bar { display: contents; }
.name { overflow-wrap: anywhere; } .value { text-align: right; font-variant-numeric: tabular-nums; }
.track { display: block; background: var(--track); border-radius: 3px; } .bar-mark { stroke: var(--c0); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 4px 10px 4px 0; vertical-align: top; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; min-width: 5.5em; } th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { background: var(--code); border-radius: 4px; padding: 1px 4px; overflow-wrap: anywhere; }
details { margin: 6px 0; } summary { cursor: pointer; color: var(--info); }
.error { color: var(--error); font-weight: 600; } .warning { color: var(--warning); font-weight: 600; }
.info { color: var(--info); }
@media (max-width: 640px) { main { padding: 8px; } section { padding: 12px; }
  .extra { display: none; } .plot .side { flex-basis: 50px; width: 50px; } .legend { margin-left: 0; }
  .bars { display: block; } .bar { display: grid; grid-template-columns: minmax(0, 1fr) max-content; gap: 2px 12px;
  padding: 4px 0; }
  .bar .track { grid-column: 1 / 3; grid-row: 2; } .value { max-width: 45vw; }
  .stacked thead { display: none; } .stacked tr { display: block; padding: 6px 0;
  border-bottom: 1px solid var(--line); } .stacked td { display: grid; grid-template-columns: 6.5em 1fr;
  text-align: left !important; white-space: normal; border: 0; padding: 1px 0; }
  .stacked td::before { content: attr(data-name); color: var(--soft); font-weight: 400; } }
@media print { @page { margin: 15mm; } body { background: none; font-size: 11px; } main { max-width: none; padding: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } nav, .top, .hover { display: none; }
  section { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: 8px 0; margin: 0; }
  section.verdict { border-top: 0; border-left: 6px solid var(--line); padding-left: 12px; }
  section.verdict p:not(.soft) { font-size: 13px; } section.verdict .headline { font-size: 16px; }
  figure, tr, .bar, li { break-inside: avoid; } h2, h3, figcaption { break-after: avoid; }
  .scroll { overflow: visible; } table, .bars, .legend, svg text { font-size: 10px; } }
"""
    + ":root {"
    + "".join(f" --c{number}: {colour};" for number, colour in enumerate(COLOURS))
    + " }\n"
    + "".join(f".c{n} {{ fill: var(--c{n}); background: var(--c{n}); }}\n" for n in range(len(COLOURS)))
)

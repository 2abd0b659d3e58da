"""The page's one style sheet: system fonts, one accent, light and dark, narrow and printed."""

STYLE = """
:root{color-scheme:light dark;--surface:#fff;--page:#f6f7f9;--ink:#16202b;--muted:#5a6673;--grid:#dfe4e9;
--accent:#1f5fa8;--untested:#d4d9de;--pass:#0b6b3a;--pass-bg:#e2f3e9;--warn:#7d4e00;--warn-bg:#fdf0d3;
--fail:#b3261e;--fail-bg:#fce8e6;--still:#4b5662;--still-bg:#e9edf1;
--s0:#0f6cbd;--s1:#c2570c;--s2:#00796b;--s3:#a0267f;--s4:#6b5b00;--s5:#3f51b5;--s6:#7a4a2b;--s7:#4a5560}
@media (prefers-color-scheme:dark){:root{--surface:#161b22;--page:#0e1217;--ink:#e6ebf0;--muted:#9aa6b2;
--grid:#2d353e;--accent:#7db7f5;--untested:#3a424b;--pass:#6fd49a;--pass-bg:#12301f;--warn:#f0c069;
--warn-bg:#352708;--fail:#ff9b92;--fail-bg:#3d1714;--still:#b3bec9;--still-bg:#242c35;
--s0:#6cb6ff;--s1:#ffa657;--s2:#4ecdb8;--s3:#f28dc9;--s4:#e3cf65;--s5:#a9b4ff;--s6:#d9a882;--s7:#aab4be}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue","Liberation Sans",Arial,sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:28px;line-height:1.2;margin:0 0 4px;font-weight:650;letter-spacing:-.01em}
h2{font-size:19px;margin:0 0 4px;font-weight:650}
h3{font-size:15px;margin:20px 0 6px;font-weight:600}
p{margin:0 0 10px;max-width:76ch}
a{color:var(--accent)}
section{background:var(--surface);border:1px solid var(--grid);border-radius:10px;padding:20px 24px;margin:18px 0}
.lead{color:var(--muted);margin:0 0 14px}
.small{font-size:13.5px;color:var(--muted)}
.facts{display:flex;flex-wrap:wrap;gap:4px 28px;margin:12px 0 0;padding:0;font-size:14px}
.facts div{min-width:0}
.facts dt{display:inline;color:var(--muted)}
.facts dt::after{content:": "}
.facts dd{display:inline;margin:0;overflow-wrap:anywhere}
.axes{display:grid;grid-template-columns:repeat(auto-fit,minmax(250px,1fr));gap:14px;margin:18px 0 0}
.axis{border-radius:10px;padding:14px 18px;border-left:6px solid currentColor}
.axis b{display:block;font-size:13px;font-weight:600;color:var(--muted)}
.axis span{font-size:25px;font-weight:650;line-height:1.25}
.axis small{display:block;font-size:14px;color:var(--ink);overflow-wrap:anywhere}
.pass{color:var(--pass);background:var(--pass-bg)}
.warn,.partial,.unstable,.skip{color:var(--warn);background:var(--warn-bg)}
.fail,.error{color:var(--fail);background:var(--fail-bg)}
.still{color:var(--still);background:var(--still-bg)}
.chip{display:inline-block;padding:1px 9px;border-radius:99px;font-size:13.5px;font-weight:600;white-space:nowrap}
.band{border-radius:10px;padding:11px 18px;margin:16px 0 0;font-size:15px}
.band p{margin:0}
.band ul{margin:4px 0 0;padding-left:20px}
ul.texts{margin:0 0 8px;padding-left:20px}
ul.texts li{margin:3px 0;overflow-wrap:anywhere;max-width:100ch}
.scroll{overflow-x:auto;margin:6px 0 2px}
td details{margin:0}
table{border-collapse:collapse;width:100%;font-size:14.5px;font-variant-numeric:tabular-nums}
th{text-align:left;font-weight:600;color:var(--muted);font-size:13px;padding:6px 14px 6px 0;border-bottom:1px solid
var(--grid);white-space:nowrap;vertical-align:bottom}
td{padding:7px 14px 7px 0;border-bottom:1px solid var(--grid);vertical-align:top}
tbody tr:last-child td{border-bottom:0}
td.n,th.n{text-align:right}td.n{white-space:nowrap}
td small,.note{display:block;color:var(--muted);font-size:13px}
.num{white-space:nowrap}
a.to{color:inherit;text-decoration:underline dotted;text-decoration-color:var(--muted);text-underline-offset:3px}
code{font:13px/1.45 ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;overflow-wrap:anywhere}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:22px 26px;margin-top:12px}
figure{margin:0;min-width:0}
figure.wide{overflow-x:auto}
figcaption{font-size:14px;font-weight:600;margin-bottom:4px}
figcaption small{display:block;font-weight:400;color:var(--muted);font-size:13px}
.simulated figure:not(.replayed) figcaption small::after{content:" · simulated"}
svg.chart{display:block;width:100%;height:auto;overflow:visible;stroke-linejoin:round;stroke-linecap:butt;
font-family:inherit}
details{margin:8px 0 0}
summary{cursor:pointer;color:var(--accent);font-size:14.5px}
nav{font-size:14px;margin:14px 0 0;display:flex;flex-wrap:wrap;gap:4px 16px}
.cmd{display:block;padding:0;color:var(--muted)}
footer{color:var(--muted);font-size:13.5px;margin:22px 2px 0}
@media (max-width:700px){main{padding:18px 12px 40px}section{padding:16px 14px;border-radius:8px}
h1{font-size:23px}.scroll:not(.stack) table{width:max-content}.scroll:not(.stack) td{max-width:18em}
figure.wide svg.chart{min-width:640px}
.stack thead{position:absolute;left:-9999px}
.stack tr{display:block;padding:10px 0;border-bottom:1px solid var(--grid)}
.stack tbody tr:last-child{border-bottom:0}
.stack td>span.v{display:block}
.stack td{display:flex;justify-content:space-between;gap:16px;border:0;padding:2px 0;text-align:right}
.stack td::before{content:attr(data-name);color:var(--muted);text-align:left;flex:none}
.stack td:empty{display:none}}
@media print{:root{color-scheme:light}body{background:#fff;font-size:11pt}main{max-width:none;padding:0}
section{border:0;border-top:1px solid #999;border-radius:0;padding:10px 0;margin:8px 0}
nav,summary{display:none}figure,tr,.axis,.band{break-inside:avoid}h2,h3,figcaption{break-after:avoid}
.scroll,figure.wide{overflow:visible}.chip,.axis,.band,svg.chart{print-color-adjust:exact;
-webkit-print-color-adjust:exact}}
@media print and (prefers-color-scheme:dark){:root{--surface:#fff;--page:#fff;--ink:#16202b;--muted:#5a6673;
--grid:#dfe4e9;--untested:#d4d9de;--pass:#0b6b3a;--pass-bg:#e2f3e9;--warn:#7d4e00;--warn-bg:#fdf0d3;--fail:#b3261e;
--fail-bg:#fce8e6;--still:#4b5662;--still-bg:#e9edf1;--s0:#0f6cbd;--s1:#c2570c;--s2:#00796b;--s3:#a0267f;--s4:#6b5b00;
--s5:#3f51b5;--s6:#7a4a2b;--s7:#4a5560}}
"""

//! How the page looks on a screen, on a phone and in print.

pub(super) const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;color:#1b1b1b;background:#fff;max-width:54rem;margin:0 auto;padding:1rem;\
overflow-wrap:break-word}\
h1{font-size:1.45rem;line-height:1.25;margin:.3rem 0 .8rem}h2{font-size:1.2rem;line-height:1.3;margin:0 0 .4rem}\
h3{font-size:1rem;margin:1.1rem 0 .2rem}section{margin-top:2.2rem;padding-top:.9rem;border-top:1px solid #ddd}\
p{margin:.4rem 0 .7rem}ul{padding-left:1.2rem;margin:.3rem 0}li{margin:.25rem 0}\
.verdict{border-left:6px solid #0072b2;background:#f3f7fa;padding:.7rem .9rem;margin:0 0 1rem}\
.verdict p:first-child{font-size:1.2rem;font-weight:600;line-height:1.35;margin-top:0}\
.warning{border-left:6px solid #d55e00;background:#fdf3ec;padding:.5rem .9rem;margin:.6rem 0}\
.note{color:#444;font-size:.93rem}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;font-size:.9rem;margin:.5rem 0}\
dt{color:#444}dd{margin:0;overflow-wrap:anywhere}\
svg{display:block;width:100%;max-width:600px;height:auto;font:12px system-ui,sans-serif;fill:#1b1b1b}\
svg .grid{stroke:#e2e2e2}svg .zero{stroke:#555}svg .tick{fill:#444;font-size:11px}svg .name{font-weight:600}\
svg .band{fill-opacity:.14}svg .halo{paint-order:stroke;stroke:#fff;stroke-width:4px}\
svg.key{display:inline-block;width:34px;height:12px;vertical-align:-1px}\
svg.sign{display:inline-block;width:16px;height:16px;vertical-align:-3px}\
.legend{font-size:.9rem}.legend span{white-space:nowrap;margin-right:.9rem}.legend.fates span{display:block;white-space:normal}\
.scroll{overflow-x:auto;margin:.4rem 0 .8rem}\
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums;line-height:1.35}\
caption{text-align:left;font-weight:600;padding:.3rem 0}\
th,td{padding:.28rem .55rem;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}\
td{white-space:nowrap}td.long{white-space:normal;min-width:11rem;text-align:left}\
th{font-weight:600;vertical-align:bottom;min-width:4.2rem}th.long{min-width:8.5rem}\
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:#fff}\
td.heat{text-align:center;border:1px solid #fff}td.best{outline:2px solid #1b1b1b;outline-offset:-2px}\
details{margin:.4rem 0}summary{cursor:pointer;font-weight:600}\
.candidates{list-style:none;padding:0;font-size:.9rem}.candidates li{border-bottom:1px solid #eee;padding:.3rem 0}\
.fate{font-weight:600}\
@media (max-width:30rem){body{padding:.7rem}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}}\
@media print{body{max-width:none;padding:0;font-size:10.5pt}\
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}\
h2,h3,caption{break-after:avoid}svg,tr,li,.verdict,.warning,.legend{break-inside:avoid}svg{max-width:12cm}th:first-child,td:first-child{position:static}\
.scroll{overflow:visible}table{font-size:7.5pt}td{white-space:normal}td.long,th,th.long{min-width:0}th,td{padding:.15rem .3rem}\
details::details-content{content-visibility:visible;display:block}}";

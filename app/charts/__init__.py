"""One drawing stack: Vega-Lite specifications of plain values, rendered as SVG for pages, and as files for analyses."""

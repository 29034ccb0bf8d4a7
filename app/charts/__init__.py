"""Charts of the dashboard: Vega-Lite specifications of plain values, and the renderer that makes SVG of them."""

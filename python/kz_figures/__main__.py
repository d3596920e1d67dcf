"""Reads {"figures": [spec, …]} from standard input and writes {"svg": {name: text}} to standard output.

A spec is {"name", "kind": "lines"|"bars"|"heat", "title", "x", "y", "series": [{"label", "x", "y", "low"?, "high"?}],
"bands"?: [{"from", "to", "label"}], "ylim"?: [low, high], "stacked"?: bool}. matplotlib is the only dependency.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

COLOURS = ["#2f6fde", "#e4572e", "#17a398", "#8d5bd1", "#e3a008", "#6b7280"]


def draw_lines(axes: Any, spec: dict[str, Any]) -> None:
    for series, colour in zip(spec["series"], COLOURS * 4):
        marker = "o" if len(series["x"]) <= 30 else None
        axes.plot(series["x"], series["y"], label=series["label"], color=colour, marker=marker, markersize=3, linewidth=1.6)
        if "low" in series:
            axes.fill_between(series["x"], series["low"], series["high"], color=colour, alpha=0.15, linewidth=0)
    for band in spec.get("bands", []):
        axes.axvspan(band["from"], band["to"], color="#000000", alpha=0.04, linewidth=0)
        axes.text(band["from"], 1.01, band["label"], transform=axes.get_xaxis_transform(), fontsize=7, color="#6b7280")


def draw_bars(axes: Any, spec: dict[str, Any]) -> None:
    series_list = spec["series"]
    labels = [str(x) for x in series_list[0]["x"]]
    places = list(range(len(labels)))
    base = [0.0] * len(labels)
    width = 0.8 if spec.get("stacked") else 0.8 / len(series_list)
    for i, (series, colour) in enumerate(zip(series_list, COLOURS * 4)):
        if spec.get("stacked"):
            axes.bar(places, series["y"], width, bottom=base, label=series["label"], color=colour)
            base = [b + y for b, y in zip(base, series["y"])]
        else:
            axes.bar([p + (i - (len(series_list) - 1) / 2) * width for p in places], series["y"], width,
                     label=series["label"], color=colour)
    axes.set_xticks(places, labels, rotation=60 if max(map(len, labels)) > 6 else 0, fontsize=7,
                    ha="right" if max(map(len, labels)) > 6 else "center")


def draw(spec: dict[str, Any]) -> str:
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    (draw_bars if spec["kind"] == "bars" else draw_lines)(axes, spec)
    axes.set_title(spec["title"], fontsize=10, loc="left", pad=14)
    axes.set_xlabel(spec.get("x", ""), fontsize=8)
    axes.set_ylabel(spec.get("y", ""), fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if "ylim" in spec:
        axes.set_ylim(*spec["ylim"])
    if len(spec["series"]) > 1:
        # Under the axes: inside them it hides lines.
        axes.legend(fontsize=7, frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(0, -0.14))
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg"):]


def main() -> int:
    # Ids are hashed from this salt, so the same data gives the same bytes.
    matplotlib.rcParams.update({"svg.hashsalt": "kernelzero", "svg.fonttype": "none", "font.family": "sans-serif"})
    request = json.load(sys.stdin)
    json.dump({"svg": {spec["name"]: draw(spec) for spec in request["figures"]}}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

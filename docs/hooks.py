"""What mkdocs is told beside mkdocs.yml: pages that other parts bring are listed once they exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

OPTIONAL = ("reliability.md",)


def on_config(config: Any) -> Any:
    """Leave pages out of the navigation that are not in this tree."""
    folder = Path(config["docs_dir"])
    for section in config["nav"]:
        for pages in section.values():
            pages[:] = [page for page in pages if page not in OPTIONAL or (folder / page).exists()]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page of the benchmarks begins with bench/RESULTS.md as it is, its chart taken from img/."""
    if page.file.src_uri != "benchmarks.md":
        return markdown
    results = (Path(__file__).parent.parent / "bench" / "RESULTS.md").read_text()
    results = results.replace("](results.png)", "](img/results.png)")
    return markdown.replace("<!-- bench/RESULTS.md -->", results)


def on_files(files: Any, config: Any) -> Any:
    """The chart of the benchmarks is part of the site, without a second copy in docs/."""
    from mkdocs.structure.files import File

    chart = Path(config["docs_dir"]).parent / "bench" / "results.png"
    files.append(File.generated(config, "img/results.png", abs_src_path=str(chart)))
    return files

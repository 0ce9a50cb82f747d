"""The notebooks run from their first cell to their last."""

from pathlib import Path

import nbclient
import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.ipynb")))
def test_notebook(name):
    notebook = nbformat.read(FOLDER / name, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "commit notebooks without outputs"
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")

"""A generated sample with a labelled dataset of each kind."""

import pytest

from polyseme.datasets.town.writers import write_town


@pytest.fixture(scope="package")
def town(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    write_town(folder, languages=["en"], num_documents=40, num_rows=160)
    return folder

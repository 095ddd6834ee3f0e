"""Links lead somewhere, and every page is found from the first."""

import re

import pytest

from tests.docs.pages import DOCS, ROOT, name_of, pages

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def links(page):
    return _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page):
    headings = _HEADING.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def linked_from(page):
    return {(page.parent / link.partition("#")[0]).resolve() for link in links(page) if "://" not in link}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page):
    for link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_linked_from_the_index():
    records = {path for path in pages() if path.parent == DOCS / "decisions" and path.name != "README.md"}
    expected = {path for path in pages() if path.is_relative_to(DOCS)} - records - {DOCS / "README.md"}
    assert expected - linked_from(DOCS / "README.md") == set()
    assert records - linked_from(DOCS / "decisions" / "README.md") == set()


def test_every_source_folder_has_its_page():
    package = ROOT / "src" / "alphaswarm_rl"
    nouns = [path.stem for path in package.iterdir() if path.name[0] not in "._" and path.suffix in ("", ".py")]
    assert [noun for noun in nouns if not (DOCS / f"{noun}.md").exists()] == []


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert "\nmake demo " in text
    assert "\nmake test " in text


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_no_page_names_a_folder_of_somebodys_machine(page):
    assert not re.search(r"/(home|Users|work|tmp)/", page.read_text(encoding="utf-8"))

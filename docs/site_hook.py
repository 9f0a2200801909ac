"""What the site reads in another way than GitHub: a hook of mkdocs.

A link to a file outside docs/ leads to the repository if LONGHAUL_REPOSITORY has its address, and
is shown as its text otherwise. The code of a table escapes its pipes, as GitHub wants it.
"""

import posixpath
import re
from typing import Any, Final

_CODE: Final = re.compile(r"`[^`\n]+`")
_LINK: Final = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:  # noqa: ANN401 - mkdocs's
    folder = posixpath.dirname(page.file.src_uri)

    def shown(found: re.Match[str]) -> str:
        text, target = found.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        if not path.startswith("../"):
            return found[0]
        return f"[{text}]({config.repo_url}/blob/main{path[2:]})" if config.repo_url else text

    plain = _CODE.sub(lambda found: found[0].replace("\\|", "|"), markdown)
    return _LINK.sub(shown, plain)

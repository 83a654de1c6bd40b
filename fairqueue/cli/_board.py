"""The live table of ``fairqueue top``: what it shows, and what its keys do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairqueue import FairQueue, FairQueueError, Scope, WorkspaceStats
from fairqueue.cli._typed import as_typed
from fairqueue.explained import explain_state, explain_wait
from fairqueue.plain import counted, printable
from fairqueue.rows import Overview
from fairqueue.shares import ORDERS, Share, shares_of, state_of
from fairqueue.tables import WORKSPACES

HEAD = ("workspace", "running", "limit", "waiting", "oldest wait", "share", "fair", "state")
STYLES = {"paused": "yellow", "draining": "yellow", "at limit": "yellow", "running": "green"}
HELP = "↑↓ row  s sort  / filter  p pause  r resume  Enter why  Esc back  q quit"
MOST = 200
BAR = 10


@dataclass
class Board:
    """The table's state: the newest numbers, the order, the filter and the chosen row."""

    core: FairQueue
    where: str
    overview: Overview | None = None
    order: str = "waiting"
    filter: str = ""
    at: int = 0
    is_typing: bool = False
    is_done: bool = False
    why: str | None = None
    """The workspace that is explained."""
    lines: list[str] = field(default_factory=list)
    said: str = ""

    def look(self) -> None:
        """Read the numbers again; on an error show it, and keep the old ones."""
        try:
            self.overview = self.core.views.overview(top=MOST)
            if self.why is not None:
                found = self.core.views.why(workspace=self.why)
                self.lines = [explain_state(found), "", *map(as_typed, explain_wait(found))]
        except FairQueueError as error:
            self.said = printable(str(error))

    def rows(self) -> list[WorkspaceStats]:
        """Return the workspaces that match, in order."""
        found = self.overview.workspaces if self.overview else ()
        matching = [row for row in found if self.filter.lower() in row.workspace.lower()]
        return sorted(matching, key=ORDERS[self.order])

    def press(self, key: str) -> None:
        """Do what a key says."""
        if self.is_typing:
            self._type(key)
            return
        does: dict[str, Callable[[], None]] = {
            "q": self._quit,
            "escape": self._back,
            "up": lambda: self._move(-1),
            "k": lambda: self._move(-1),
            "down": lambda: self._move(1),
            "j": lambda: self._move(1),
            "s": self._sort,
            "/": self._filter,
            "p": lambda: self._hold(self.core.pauses.pause, "paused"),
            "r": lambda: self._hold(self.core.pauses.resume, "resumed"),
            "enter": self._explain,
        }
        if key in does:
            self.said = ""
            does[key]()

    def _quit(self) -> None:
        self.is_done = True

    def _back(self) -> None:
        self.filter = "" if self.why is None else self.filter
        self.why = None

    def _move(self, by: int) -> None:
        self.at = max(0, min(self.at + by, len(self.rows()) - 1))

    def _sort(self) -> None:
        names = list(ORDERS)
        self.order = names[(names.index(self.order) + 1) % len(names)]

    def _filter(self) -> None:
        self.filter, self.is_typing, self.at = "", True, 0

    def _type(self, key: str) -> None:
        if key in {"enter", "escape"}:
            self.is_typing = False
            self.filter = self.filter if key == "enter" else ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1:
            self.filter += key

    def _chosen(self) -> str | None:
        rows = self.rows()
        return self.why or (rows[min(self.at, len(rows) - 1)].workspace if rows else None)

    def _hold(self, act: Callable[[Scope], object], done: str) -> None:
        name = self._chosen()
        if name is None:
            return
        try:
            act(Scope.workspace(name))
            self.said = f"{done}: {printable(name)}"
        except FairQueueError as error:
            self.said = printable(str(error))
        self.look()

    def _explain(self) -> None:
        self.why = self._chosen()
        self.look()

    def shown(self, height: int) -> RenderableType:
        """Lay it out for a terminal of this height; nothing in a name steers the terminal."""
        foot = Text(self.said or (f"/{printable(self.filter)}▏" if self.is_typing else HELP), "dim")
        if self.why is not None:
            body = Text("\n".join(self.lines[: height - 3]))
            return Group(Text(printable(self.why), "bold"), body, foot)
        return Group(self._summary(), self._table(max(1, height - 5)), foot)

    def _summary(self) -> Text:
        if self.overview is None:
            return Text(f"{self.where}: no answer yet")
        found = self.overview
        held = f"   {len(found.pauses):,} paused" if found.pauses else ""
        chosen = f"   filter {printable(self.filter)!r}" if self.filter else ""
        return Text(
            f"{self.where}   {found.running:,} running   {found.queued:,} queued   "
            f"{counted(found.known_workspaces, 'workspace')}{held}   by {self.order}{chosen}"
        )

    def _table(self, height: int) -> Table:
        rows = self.rows()
        self.at = max(0, min(self.at, len(rows) - 1))
        first = max(0, self.at - height + 1)
        shares = shares_of(self.overview.workspaces) if self.overview else {}
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
        for name in HEAD:
            left = name in {"workspace", "share", "state"}
            table.add_column(
                name,
                justify="left" if left else "right",
                no_wrap=True,
                overflow="ellipsis",
                ratio=1 if name == "workspace" else None,
            )
        for n, row in enumerate(rows[first : first + height], first):
            style = "reverse" if n == self.at else ""
            table.add_row(*_cells(row, shares[row.workspace]), style=style)
        return table


def _cells(row: WorkspaceStats, share: Share) -> list[Text]:
    state = state_of(row)
    by_title = {column.title: column.text(row) for column in WORKSPACES}
    texts = [by_title[title] for title in HEAD if title in by_title]
    texts.append(f"{'█' * round(BAR * share.has):<{BAR}} {100 * share.has:3.0f} %")
    return [
        *map(Text, texts),
        Text(f"{100 * share.fair:.0f} %"),
        Text(state, STYLES.get(state, "")),
    ]

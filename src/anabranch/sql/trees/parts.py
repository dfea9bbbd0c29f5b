"""Parts of a tree that are standing queries: those with a window, SINCE, MERGE JOIN or a table as it was.

Their answers are final, so they come and stay, as rows of a stream do.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.base import Operator
from anabranch.operators.tree.nodes import Expire, Part
from anabranch.sql.checking.safety import called
from anabranch.sql.standing.columns import WINDOW_CALLS
from anabranch.sql.tree import Select, Side
from anabranch.sql.trees.context import Context
from anabranch.sql.trees.draft import Place
from anabranch.sql.trees.scope import Field, Relation
from anabranch.sql.trees.typing import INSTEAD


def is_part(select: Select, tree: exp.Expr) -> bool:
    """Whether a query has clauses of ours, or groups by a window; a set operation, whether both of its sides do."""
    if isinstance(tree, exp.SetOperation):
        sides = (tree.this, tree.expression)
        plain = all(isinstance(side, exp.Select) and is_part(select, side) for side in sides)
        return plain and not has_clauses_behind(tree)
    if not isinstance(tree, exp.Select):
        return False
    if not _side(select, tree).is_empty:
        return True
    from_ = tree.args.get("from_")
    sources = [from_.this if from_ is not None else None, *(join.this for join in tree.args.get("joins") or ())]
    if any(source is not None and source.args.get("version") for source in sources):
        return True
    group = tree.args.get("group")
    return group is not None and any(called(key.unalias()) in WINDOW_CALLS for key in group.expressions)


def has_clauses_behind(tree: exp.SetOperation) -> bool:
    """Whether a set operation has what it has as a composition alone."""
    return any(tree.args.get(clause) for clause in ("with_", "order", "limit", "offset"))


def leaves(tree: exp.Expr) -> list[exp.Expr]:
    """The SELECTs of a set operation, in the order in which they are written."""
    found: list[exp.Expr] = []
    rest = [tree]
    while rest:
        side = rest.pop()
        if isinstance(side, exp.SetOperation):
            rest += [side.expression, side.this]
        elif isinstance(side, exp.Subquery):
            rest.append(side.this)
        else:
            found.append(side)
    return found


def _side(select: Select, tree: exp.Expr) -> Side:
    """The clauses of a SELECT, wherever it stands."""
    return select.clauses_of(tree)


def plan_part(context: Context, tree: exp.Expr) -> Relation:
    """A part as one node, with the columns it selects."""
    from anabranch.sql.standing.plan import plan_standing  # which plans trees, too

    select = context.select
    whole = _as_query(select, tree)
    plan = plan_standing(whole, context.lookup, context.reducers)
    if plan.residual_sql is not None or plan.schema is None:
        raise select.error(
            "EXPRESSION_NEEDS_SPARK",
            "this part needs Spark SQL, which cannot keep an answer that changes",
            tree,
            hint=INSTEAD,
        )
    if whole.merge is not None or plan.operator.reads_history:
        what = "merge" if whole.merge is not None else "part that reads history"
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a {what} cannot stand inside of another query",
            tree,
            hint="make it a stream with CREATE STREAM … AS SELECT …, and read that",
        )
    selected = [
        field for field in plan.schema.arrow if field.name != plan.schema.time or _is_selected(tree, field.name)
    ]
    drafts = context.drafts
    columns = [(drafts.fresh(field.name), field) for field in selected]
    time = next((own for own, field in columns if field.name == plan.schema.time), None)
    shown = len(columns)
    if time is None:
        time = drafts.fresh(plan.schema.time)
        columns.append((time, plan.schema.arrow.field(plan.schema.time)))
    operator = plan.operator.however_cut()
    node = Part(operator.to_json(), tuple((own, field.name) for own, field in columns))
    schema = pa.schema([pa.field(own, field.type) for own, field in columns])
    number = drafts.add(node, schema, Place("a part with a window" if whole.window else "a part", tree))
    after = _counts_for(select, operator)
    if after is not None:
        number = drafts.add(Expire(number, time, after), schema, Place("the current window", tree))
    return Relation(number, tuple(Field(field.name, own) for own, field in columns[:shown]))


def _counts_for(select: Select, operator: Operator) -> int | None:
    """How long answers of a part count: until the next window's, or as long as the query says; None: for good.

    So a part with a window is the answer of the current one, and parts with the same windows are combined by them.
    """
    if select.bounding is not None and select.bounding.after is not None:
        return select.bounding.after
    windows = operator.answers_of_windows
    return None if windows is None else windows[0] - 1


def _as_query(select: Select, tree: exp.Expr) -> Select:
    """A part with its clauses as a query of its own."""
    sides = tuple(_side(select, leaf) for leaf in leaves(tree))
    return select.part(tree, sides)


def _is_selected(tree: exp.Expr, name: str) -> bool:
    """Whether the time of the answers is among the columns that a part selects."""
    first = leaves(tree)[0]
    if name != "_time":
        return True
    return any(item.alias_or_name.lower() == name or item.is_star for item in first.expressions)

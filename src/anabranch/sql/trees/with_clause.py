"""WITH: queries that have a name, each planned once, whoever reads it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from anabranch.sql.trees.context import Context, Cte, Ctes


def with_ctes(context: Context, tree: exp.Expr, known: Ctes) -> Ctes:
    """What can be read by name below a query: what was known, and what its WITH defines."""
    clause = tree.args.get("with_")
    if clause is None:
        return known
    if clause.args.get("recursive"):
        raise context.refuse("WITH RECURSIVE is not available where answers change", tree, None, "RECURSIVE")
    ctes = dict(known)
    for definition in clause.expressions:
        name, alias = definition.alias, definition.args["alias"]
        relation = context.query(context, definition.this, ctes)
        names = [part.name for part in alias.args.get("columns") or ()]
        fields = relation.fields
        if names and len(names) != len(fields):
            raise context.select.error(
                "SET_COLUMNS_DIFFER",
                f"{len(names)} names for {len(fields)} columns",
                alias,
                hint="name each column once",
            )
        if names:
            relation = replace(
                relation, fields=tuple(replace(f, name=own) for f, own in zip(fields, names, strict=True))
            )
        ctes[name.lower()] = Cte(name, relation)
    return ctes

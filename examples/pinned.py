"""Pin an order while you look into something; let it go again when you are done."""

import thalweg as tw

spark = tw.session()
numbers = spark.range(40_000)
most = tw.pred(lambda id: id % 10 != 0, name="most")
few = tw.pred(lambda id: id % 50 == 7, name="few")


def run():
    return tw.where(numbers, most, few, policy="agreedy", name="pinned", seed=1).count()


print(run(), "rows")
query = tw.query("pinned")
print("learned:", " → ".join(query.plan().route()))
query.freeze(["most", "few"])
print(run(), "rows, as pinned:", query.stats().tail(1).route.item())
query.thaw()
print(run(), "rows, thawed:", query.stats().tail(1).route.item())
print(query.events().tail(2)[["by", "kind", "after"]].to_string(index=False))

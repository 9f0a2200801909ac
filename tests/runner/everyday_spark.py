"""What jobs do with Spark, each once, on few rows: `python -m tests.runner.everyday_spark FOLDER`.

It prints a line for each. A class that is missing ends it with a traceback. MLlib is called through
the JVM: `pyspark.ml` needs NumPy, which neither this environment nor the image has.
"""

import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.runner.resources import Resources
from longhaul.runner.spark.aot_training import work
from longhaul.runner.spark.gateway import Gateway
from longhaul.runner.spark.session import build_session, session_options

RESOURCES = Resources(cores=2, memory_mib=2048)


def codecs(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(100).withColumn("text", F.repeat(F.lit("ab"), 50))
    for format_, names in {
        "parquet": ("snappy", "gzip", "zstd", "lz4_raw", "none"),
        "orc": ("snappy", "zlib", "zstd", "lz4", "none"),
        "csv": ("gzip", "bzip2", "deflate", "none"),
        "json": ("gzip", "bzip2", "none"),
    }.items():
        for name in names:
            place = (folder / f"{format_}-{name}").as_uri()
            rows.write.format(format_).option("compression", name).save(place)
            assert spark.read.format(format_).load(place).count() == 100


def formats(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(10).withColumn("text", F.lit("x"))
    rows.select("text").write.text((folder / "text").as_uri())
    assert spark.read.text((folder / "text").as_uri()).count() == 10
    assert spark.read.format("binaryFile").load((folder / "text").as_uri()).count() > 0
    rows.write.xml((folder / "xml").as_uri(), rowTag="row")
    assert spark.read.xml((folder / "xml").as_uri(), rowTag="row").count() == 10


def tables(spark: SparkSession, folder: Path) -> None:
    del folder
    spark.range(3).write.saveAsTable("kept")
    assert spark.catalog.tableExists("kept")
    spark.sql("CREATE TABLE made (id BIGINT, day DATE) USING parquet PARTITIONED BY (day)")
    spark.sql("INSERT INTO made SELECT id, DATE'2013-01-01' FROM kept")
    assert spark.table("made").count() == 3
    spark.sql("EXPLAIN FORMATTED SELECT * FROM made JOIN kept USING (id)").collect()


def streams(spark: SparkSession, folder: Path) -> None:
    """What is there now, with state in the default store."""
    spark.range(10).write.json((folder / "in").as_uri())
    query = (
        spark.readStream.schema("id long")
        .json((folder / "in").as_uri())
        .groupBy((F.col("id") % 2).alias("k"))
        .count()
        .writeStream.outputMode("complete")
        .format("memory")
        .queryName("counts")
        .option("checkpointLocation", (folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table("counts").count() == 2


def mllib(spark: SparkSession, folder: Path) -> None:
    """Regression, classification, trees, clusters, recommendation, and a saved model."""
    context: Any = spark.sparkContext
    ml, gateway = context._jvm.org.apache.spark.ml, context._gateway
    rows = spark.range(200).selectExpr(
        "cast(id AS double) AS x",
        "cast(id % 7 AS double) AS y",
        "cast(id % 2 AS double) AS label",
        "cast(id % 10 AS int) AS user",
        "cast(id % 5 AS int) AS item",
    )
    names = gateway.new_array(context._jvm.java.lang.String, 2)
    names[0], names[1] = "x", "y"
    assemble = ml.feature.VectorAssembler().setInputCols(names).setOutputCol("features")
    data = assemble.transform(rows._jdf)
    scaler = ml.feature.StandardScaler().setInputCol("features").setOutputCol("scaled")
    assert scaler.fit(data).transform(data).count() == 200
    for estimator in (
        ml.regression.LinearRegression().setMaxIter(5),
        ml.classification.LogisticRegression().setMaxIter(5),
        ml.classification.RandomForestClassifier().setNumTrees(3),
        ml.regression.GBTRegressor().setMaxIter(2),
        ml.clustering.KMeans().setK(3),
        ml.feature.PCA().setK(1).setInputCol("features").setOutputCol("first"),
    ):
        model = estimator.fit(data)
        assert model.transform(data).count() == 200, estimator
    als = ml.recommendation.ALS().setMaxIter(2).setRank(2)
    als.setUserCol("user").setItemCol("item").setRatingCol("x").fit(rows._jdf)
    trained = ml.classification.LogisticRegression().setMaxIter(5).fit(data)
    trained.write().overwrite().save((folder / "model").as_uri())
    loaded = ml.classification.LogisticRegressionModel.load((folder / "model").as_uri())
    assert loaded.coefficients().equals(trained.coefficients())
    trained.evaluate(data).areaUnderROC()


# The first does CSV, Parquet, JSON, ORC, joins, windows, SQL, a Python function.
THINGS = (work, codecs, formats, tables, streams, mllib)


def main(folder: Path) -> None:
    gateway = Gateway(folder, RESOURCES)
    try:
        gateway.attach()
        spark = build_session("everyday", session_options(RESOURCES, folder))
        for each in THINGS:
            place = folder / each.__name__
            place.mkdir()
            each(spark, place)
            sys.stdout.write(f"{each.__name__}\n")
            sys.stdout.flush()
        spark.stop()
    finally:
        gateway.stop()
    sys.stdout.write(f"done with {Path(pyspark.__file__).parent}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

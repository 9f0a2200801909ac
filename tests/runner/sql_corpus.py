"""Queries for the guard of the `sql` job: hostile ones by family, and harmless ones.

They read the view `trips(city STRING, km INT)`.
"""

from typing import Final

CALL: Final = "{call}"

CALLS: Final = (
    "reflect('java.lang.System', 'getenv', 'HOME')",
    "java_method('java.lang.System', 'getenv', 'HOME')",
    "try_reflect('java.lang.System', 'getenv', 'HOME')",
    "ReFlEcT('java.lang.System', 'getenv', 'HOME')",
    "`reflect`('java.lang.System', 'getenv', 'HOME')",
    "reflect /* a comment */ ('java.lang.System', 'getenv', 'HOME')",
    "reflect -- a comment\n('java.lang.System', 'getenv', 'HOME')",
    "reflect('java.lang.System', 'exit', 1)",
    "reflect('java.lang.System', 'load', '/tmp/inputs/trips/00000-x.so')",
    "reflect('org.apache.hadoop.fs.FileUtil', 'symLink', '/etc/shadow', '/tmp/output/main/x')",
    "reflect('java.nio.file.Files', 'readString', '/etc/passwd')",
    "xpath('<a/>', '/a')",
    "xpath_boolean('<a/>', '/a')",
    "xpath_double('<a/>', '/a')",
    "xpath_float('<a/>', '/a')",
    "xpath_int('<a/>', '/a')",
    "xpath_long('<a/>', '/a')",
    "xpath_number('<a/>', '/a')",
    "xpath_short('<a/>', '/a')",
    "xpath_string('<!DOCTYPE a SYSTEM \"http://169.254.170.2/\"><a/>', '/a')",
    "XPath_String('<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>', '/a')",
    "from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
    "schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd'))",
    "to_xml(named_struct('a', 1))",
    "from_avro(X'00', '\"int\"', map('avroSchemaUrl', '/etc/passwd'))",
    "to_avro(1)",
    "schema_of_avro('\"int\"')",
    "from_protobuf(X'00', 'M', '/etc/passwd')",
    "to_protobuf(named_struct('a', 1), 'M', '/etc/passwd')",
)
"""Calls that reach Java, files or the network, with case tricks and comments."""

PLACES: Final[dict[str, tuple[str, ...]]] = {
    "clauses": (
        "SELECT {call}",
        "SELECT {call} AS x FROM trips",
        "SELECT DISTINCT {call} FROM trips",
        "SELECT 1 FROM trips WHERE {call} = 'x'",
        "SELECT 1 FROM trips ORDER BY {call}",
        "SELECT 1 FROM trips SORT BY {call}",
        "SELECT 1 FROM trips DISTRIBUTE BY {call}",
        "SELECT 1 FROM trips CLUSTER BY {call}",
        "SELECT count(*) FROM trips GROUP BY {call}",
        "SELECT count(*) FROM trips GROUP BY CUBE ({call})",
        "SELECT count(*) FROM trips GROUP BY ROLLUP (city, {call})",
        "SELECT count(*) FROM trips GROUP BY GROUPING SETS ((city), ({call}))",
        "SELECT city FROM trips GROUP BY city HAVING max({call}) = 'x'",
        "SELECT 1 FROM trips LIMIT length({call})",
        "SELECT 1 FROM trips LIMIT 1 OFFSET length({call})",
        "VALUES ({call})",
        "VALUES (1, 'a'), (2, {call})",
        "SELECT * FROM VALUES (1, {call}) AS t(a, b)",
        "(SELECT {call})",
        "FROM trips SELECT {call}",
        "SELECT * EXCEPT (city), {call} FROM trips",
        "SELECT struct(city, {call}) FROM trips",
        "SELECT array({call})[0], map('a', {call})['a']",
        "SELECT named_struct('a', {call}).a",
    ),
    "operators": (
        "SELECT 'a' || {call}",
        "SELECT CASE WHEN {call} = 'x' THEN 1 END",
        "SELECT CASE {call} WHEN 'x' THEN 1 ELSE 2 END",
        "SELECT CASE WHEN true THEN {call} ELSE '' END",
        "SELECT CAST({call} AS STRING)",
        "SELECT TRY_CAST({call} AS INT)",
        "SELECT ({call})::STRING",
        "SELECT {call} IN ('a', 'b')",
        "SELECT 'a' IN ('b', {call})",
        "SELECT 'a' BETWEEN {call} AND 'z'",
        "SELECT {call} LIKE 'a%'",
        "SELECT 'a' LIKE ANY ('b', {call})",
        "SELECT {call} RLIKE 'a'",
        "SELECT {call} IS NULL",
        "SELECT NOT ({call} = 'a')",
        "SELECT -length({call})",
        "SELECT trim(BOTH {call} FROM 'abc')",
        "SELECT substring({call} FROM 1 FOR 2)",
        "SELECT position({call} IN 'abc')",
        "SELECT overlay('abc' PLACING {call} FROM 1)",
        "SELECT extract(YEAR FROM date({call}))",
        "SELECT timestampadd(DAY, length({call}), current_timestamp())",
        "SELECT {call} COLLATE UNICODE",
        "SELECT coalesce(upper(concat('a', {call})), 'b')",
    ),
    "pipe syntax": (
        "FROM trips |> SELECT {call}",
        "FROM trips |> EXTEND {call} AS x",
        "FROM trips |> SET city = {call}",
        "FROM trips |> SET km = 1, city = {call}",
        "FROM trips |> SET km = 1 |> SET city = upper({call})",
        "FROM trips |> SET city = (SELECT {call})",
        "FROM trips |> SET city = CASE WHEN km > 1 THEN {call} ELSE city END |> LIMIT 1",
        "FROM trips |> WHERE city = {call}",
        "FROM trips |> ORDER BY {call}",
        "FROM trips |> AGGREGATE max({call}) AS x GROUP BY city",
        "FROM trips |> AGGREGATE count(*) AS n GROUP BY {call} AS x",
        "FROM trips |> JOIN (SELECT {call} AS c) t ON city = c",
        "FROM trips |> JOIN trips t ON t.city = {call}",
        "FROM trips |> UNION ALL SELECT {call}, 1",
        "FROM trips |> TABLESAMPLE (50 PERCENT) |> SET city = {call}",
        "FROM trips |> PIVOT (max({call}) FOR km IN (3, 4))",
        "FROM trips |> AS t |> SET city = {call}",
        "FROM trips |> DROP km |> SET city = {call}",
        "WITH a AS (FROM trips |> SET city = {call}) SELECT * FROM a",
        "SELECT * FROM (FROM trips |> SET city = {call})",
        "TABLE trips |> SET city = {call}",
        "VALUES (1) AS t(a) |> SET a = length({call})",
    ),
    "windows": (
        "SELECT sum(km) OVER (PARTITION BY {call}) FROM trips",
        "SELECT sum(km) OVER (ORDER BY {call}) FROM trips",
        "SELECT max({call}) OVER () FROM trips",
        "SELECT sum(km) FILTER (WHERE {call} = 'x') OVER () FROM trips",
        "SELECT sum(km) OVER w FROM trips WINDOW w AS (PARTITION BY {call})",
        "SELECT sum(km) OVER w FROM trips WINDOW w AS (ORDER BY {call})",
        "SELECT sum(km) OVER w FROM trips WINDOW w AS (PARTITION BY city ORDER BY {call} DESC)",
        (
            "SELECT sum(km) OVER a, sum(km) OVER b FROM trips"
            " WINDOW a AS (ORDER BY km), b AS (PARTITION BY upper({call}))"
        ),
        "SELECT sum(km) OVER w FROM trips WINDOW v AS (PARTITION BY {call}), w AS v",
        "SELECT sum(km) OVER (w) FROM trips WINDOW w AS (DISTRIBUTE BY {call} SORT BY km)",
        "SELECT * FROM (SELECT sum(km) OVER w FROM trips WINDOW w AS (ORDER BY {call}))",
        "FROM trips |> SELECT sum(km) OVER w WINDOW w AS (PARTITION BY {call})",
        "FROM trips |> EXTEND sum(km) OVER w AS s WINDOW w AS (ORDER BY {call})",
        "SELECT lag(city, 1, {call}) OVER (ORDER BY km) FROM trips",
        "SELECT nth_value({call}, 1) OVER (ORDER BY km) FROM trips",
    ),
    "lambdas": (
        "SELECT transform(array(1), x -> {call})",
        "SELECT transform(array(1, 2), (x, i) -> concat(x, {call}))",
        "SELECT filter(array('a'), x -> x = {call})",
        "SELECT exists(array('a'), x -> x = {call})",
        "SELECT forall(array('a'), x -> x = {call})",
        "SELECT aggregate(array('a'), '', (a, x) -> concat(a, {call}))",
        "SELECT aggregate(array('a'), '', (a, x) -> a, a -> concat(a, {call}))",
        "SELECT reduce(array('a'), {call}, (a, x) -> a)",
        "SELECT zip_with(array(1), array(2), (a, b) -> {call})",
        "SELECT map_filter(map('a', 1), (k, v) -> k = {call})",
        "SELECT transform_keys(map('a', 1), (k, v) -> {call})",
        "SELECT transform_values(map('a', 1), (k, v) -> {call})",
        "SELECT map_zip_with(map('a', 1), map('a', 2), (k, a, b) -> {call})",
        "SELECT array_sort(array('a', 'b'), (a, b) -> length({call}))",
        "SELECT transform(array(array(1)), x -> transform(x, y -> {call}))",
    ),
    "subqueries": (
        "SELECT (SELECT {call})",
        "SELECT * FROM (SELECT {call})",
        "SELECT * FROM (SELECT * FROM (SELECT {call} AS x) WHERE x = 'a')",
        "SELECT 1 WHERE EXISTS (SELECT {call})",
        "SELECT 1 FROM trips WHERE city IN (SELECT {call})",
        "SELECT 1 FROM trips WHERE (city, km) IN (SELECT {call}, 1)",
        "SELECT 1 FROM trips WHERE city = (SELECT max({call}) FROM trips)",
        "SELECT 1 FROM trips ORDER BY (SELECT {call})",
        "SELECT max((SELECT {call})) FROM trips",
        "WITH a AS (SELECT {call}) SELECT * FROM a",
        "WITH a AS (SELECT 1), b AS (SELECT {call}) SELECT * FROM a",
        "WITH a AS (WITH b AS (SELECT {call}) SELECT * FROM b) SELECT * FROM a",
        "SELECT * FROM (WITH a AS (SELECT {call}) SELECT * FROM a)",
        "SELECT (WITH a AS (SELECT {call} AS x) SELECT x FROM a)",
        (
            "WITH RECURSIVE r(n) AS (SELECT length({call}) UNION ALL SELECT n + 1 FROM r"
            " WHERE n < 3)"
            " SELECT * FROM r"
        ),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + length({call}) FROM r"
            " WHERE n < 3)"
            " SELECT * FROM r"
        ),
        "SELECT 1 UNION SELECT length({call})",
        "SELECT 1 EXCEPT SELECT length({call})",
        "SELECT 1 INTERSECT SELECT length({call})",
    ),
    "joins, laterals and pivots": (
        "SELECT 1 FROM trips a JOIN trips b ON a.city = {call}",
        "SELECT 1 FROM trips a LEFT JOIN trips b ON a.km = b.km AND b.city = {call}",
        "SELECT * FROM trips, LATERAL (SELECT {call})",
        "SELECT * FROM trips JOIN LATERAL (SELECT {call} AS x) ON x = city",
        "SELECT * FROM trips LATERAL VIEW explode(array({call})) t AS x",
        "SELECT * FROM trips LATERAL VIEW OUTER posexplode(array({call})) t AS i, x",
        "SELECT * FROM trips LATERAL VIEW json_tuple({call}, 'a') t AS x",
        "SELECT * FROM trips PIVOT (max({call}) FOR city IN ('a'))",
        "SELECT * FROM trips PIVOT (max(upper({call})) AS x FOR (city) IN ('a' AS b))",
        "SELECT * FROM (SELECT km, {call} AS x FROM trips) UNPIVOT (v FOR n IN (km))",
        "SELECT * FROM (SELECT {call} AS c) TABLESAMPLE (1 ROWS)",
    ),
    "hints": (
        "SELECT /*+ BROADCAST(t) */ {call} FROM trips t",
        "SELECT /*+ REPARTITION(3) */ km FROM trips WHERE city = {call}",
        "SELECT /*+ COALESCE(1), MERGE(t) */ * FROM trips t ORDER BY {call}",
    ),
    "table functions": (
        "SELECT * FROM range(length({call}))",
        "SELECT * FROM range(start => 0, end => length({call}))",
        "SELECT * FROM explode(array({call}))",
        "SELECT * FROM posexplode(array({call}))",
        "SELECT * FROM inline(array(struct({call})))",
        "SELECT * FROM stack(1, {call})",
        "SELECT * FROM json_tuple({call}, 'a')",
        "SELECT * FROM trips, LATERAL explode(array({call}))",
        "SELECT explode(array({call}))",
        "SELECT stack(2, 1, length({call}))",
    ),
    "aggregates": (
        "SELECT max({call}) FROM trips",
        "SELECT count(DISTINCT {call}) FROM trips",
        "SELECT count(*) FILTER (WHERE {call} = 'x') FROM trips",
        "SELECT collect_list({call}) FROM trips",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length({call})) FROM trips",
        "SELECT listagg(city, ',') WITHIN GROUP (ORDER BY {call}) FROM trips",
        "SELECT first({call} IGNORE NULLS) FROM trips",
        "SELECT any_value({call}) FROM trips",
        "SELECT max_by(city, {call}) FROM trips",
    ),
}
"""Where a call can stand. Each place is a whole query around it."""

PLACES_OF_EVERY_CALL: Final = {
    "calls": "SELECT {call}",
    "calls in a pipe": "FROM trips |> SET city = cast({call} AS STRING)",
    "calls in a window": "SELECT sum(km) OVER w FROM trips WINDOW w AS (ORDER BY {call})",
}

HINTS_WITH_CALLS: Final = (
    "SELECT /*+ REPARTITION({call}) */ * FROM trips",
    "SELECT /*+ REPARTITION_BY_RANGE(3, {call}) */ * FROM trips",
    "SELECT /*+ UNKNOWN({call}) */ * FROM trips",
)
"""Spark resolves no functions in hints, so only the walk over the plan sees them."""

QUALIFIED_CALLS: Final = (
    "SELECT builtin.reflect('java.lang.System', 'getenv')",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv')",
    "SELECT SYSTEM.Builtin.`reflect`('java.lang.System', 'getenv')",
    "SELECT session.reflect('java.lang.System', 'getenv')",
    "SELECT system.session.reflect('java.lang.System', 'getenv')",
    "SELECT spark_catalog.default.reflect('java.lang.System', 'getenv')",
    "SELECT `system.builtin.reflect`('java.lang.System', 'getenv')",
    "FROM trips |> SET city = builtin.reflect('java.lang.System', 'getenv')",
    (
        "SELECT sum(km) OVER w FROM trips"
        " WINDOW w AS (ORDER BY builtin.reflect('java.lang.System', 'getenv'))"
    ),
    "SELECT * FROM trips LATERAL VIEW reflect('java.lang.System', 'getenv') t AS x",
    "SELECT * FROM trips LATERAL VIEW OUTER builtin.reflect('a', 'b') t AS x",
    "SELECT * FROM reflect('java.lang.System', 'getenv')",
    "SELECT no_such_function(1)",
)

STATEMENTS: Final[dict[str, tuple[str, ...]]] = {
    "files as tables": (
        "SELECT * FROM parquet.`/etc`",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM TEXT.`file:///etc/passwd`",
        "SELECT * FROM json.`s3://other-bucket/x`",
        "SELECT * FROM orc.`/tmp`",
        "SELECT * FROM binaryFile.`/etc/shadow`",
        "SELECT * FROM avro.`/tmp/x`",
        "SELECT * FROM xml.`/tmp/x`",
        "SELECT * FROM delta.`/tmp/x`",
        "SELECT * FROM jdbc.`jdbc:h2:mem:x`",
        "SELECT * FROM `jdbc`.`jdbc:postgresql://10.0.0.1/x`",
        "SELECT * FROM `org.apache.spark.sql.execution.datasources.csv`.`/etc/passwd`",
        "SELECT * FROM `text`.`/proc/self/environ`",
        "SELECT * FROM socket.`localhost:9999`",
        "SELECT * FROM kafka.`x`",
        "SELECT * FROM `/etc/passwd`",
        "SELECT * FROM `file:/etc/passwd`",
        "SELECT (SELECT max(value) FROM text.`/etc/passwd`)",
        "SELECT 1 WHERE 1 IN (SELECT value FROM text.`/etc/passwd`)",
        "SELECT 1 WHERE EXISTS (SELECT * FROM text.`/etc/passwd`)",
        "WITH a AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM a",
        "WITH a AS (WITH b AS (SELECT * FROM csv.`/etc`) SELECT * FROM b) SELECT * FROM a",
        "WITH RECURSIVE r AS (SELECT * FROM text.`/etc` UNION ALL SELECT * FROM r) SELECT * FROM r",
        "SELECT * FROM trips, LATERAL (SELECT * FROM json.`/etc`)",
        "SELECT * FROM trips a JOIN text.`/etc/passwd` b ON true",
        "SELECT * FROM trips UNION SELECT * FROM text.`/etc/passwd`",
        "SELECT transform(array(1), x -> (SELECT max(value) FROM text.`/etc/passwd`))",
        (
            "SELECT sum(km) OVER w FROM trips"
            " WINDOW w AS (ORDER BY (SELECT max(value) FROM text.`/etc/passwd`))"
        ),
        "FROM trips |> SET city = (SELECT max(value) FROM text.`/etc/passwd`)",
        "FROM trips |> WHERE city IN (SELECT value FROM text.`/etc/passwd`)",
        "FROM text.`/etc/passwd` |> SELECT *",
        "VALUES ((SELECT max(value) FROM text.`/etc/passwd`))",
        "SELECT * FROM range((SELECT max(value) FROM text.`/etc/passwd`))",
        "TABLE text.`/etc/passwd`",
        "FROM text.`/etc/passwd`",
    ),
    "other tables": (
        "SELECT * FROM elsewhere",
        "TABLE elsewhere",
        "SELECT * FROM default.trips",
        "SELECT * FROM spark_catalog.default.trips",
        "SELECT * FROM global_temp.trips",
        "SELECT * FROM session.trips",
        "SELECT * FROM system.session.trips",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM trips WITH (path = '/etc/passwd')",
        "SELECT * FROM trips WITH (`a` 1)",
        "SELECT * FROM STREAM trips",
        "SELECT * FROM trips AS a JOIN elsewhere AS b USING (km)",
    ),
    "time travel": (
        "SELECT * FROM trips VERSION AS OF 1",
        "SELECT * FROM trips TIMESTAMP AS OF '2020-01-01'",
        "SELECT * FROM trips FOR SYSTEM_VERSION AS OF 1",
        "SELECT * FROM trips FOR SYSTEM_TIME AS OF current_timestamp()",
        "SELECT * FROM trips TIMESTAMP AS OF (SELECT reflect('a', 'b'))",
    ),
    "table functions that are not listed": (
        "SELECT * FROM read_files('/etc')",
        "SELECT * FROM python_worker_logs()",
        "SELECT * FROM PYTHON_WORKER_LOGS()",
        "SELECT * FROM collations()",
        "SELECT * FROM sql_keywords()",
        "SELECT * FROM builtin.range(3)",
        "SELECT * FROM trips, LATERAL python_worker_logs()",
        "SELECT * FROM explode(TABLE(trips))",
        "SELECT * FROM my_udtf(TABLE(SELECT * FROM trips))",
    ),
    "computed names": (
        "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
        "SELECT * FROM IDENTIFIER('text.`/etc/' || 'passwd`')",
        "SELECT * FROM IDENTIFIER('else' || 'where')",
        "SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv')",
        "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv')",
        "SELECT IDENTIFIER(concat('ref', 'lect'))('java.lang.System', 'getenv') FROM trips",
        "FROM trips |> SET city = IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv')",
        (
            "SELECT sum(km) OVER w FROM trips"
            " WINDOW w AS (ORDER BY IDENTIFIER('ref' || 'lect')('a', 'b'))"
        ),
        "SELECT * FROM IDENTIFIER('python_worker' || '_logs')()",
        "SELECT * FROM IDENTIFIER(:t)",
        "SELECT :name",
        "SELECT ?",
        "SELECT * FROM trips LIMIT :n",
    ),
    "settings and variables": (
        "SET spark.sql.runSQLOnFiles = true",
        "SET -v",
        "SET",
        "set/**/spark.sql.variable.substitute=true",
        "SET TIME ZONE 'UTC'",
        "RESET",
        "RESET spark.sql.runSQLOnFiles",
        "SET VAR x = 1",
        "SET VARIABLE x = (SELECT reflect('a', 'b'))",
        "DECLARE VARIABLE x STRING DEFAULT reflect('java.lang.System', 'getenv')",
        "DECLARE OR REPLACE x = 1",
        "DROP TEMPORARY VARIABLE x",
        "USE default",
        "USE CATALOG spark_catalog",
        "SET CATALOG spark_catalog",
        "SET spark.sql.catalog.evil = com.example.Evil",
        "SET PATH = DEFAULT_PATH",
    ),
    "resources and definitions": (
        "ADD JAR '/tmp/x.jar'",
        "ADD FILE '/etc/passwd'",
        "ADD ARCHIVE '/tmp/x.zip'",
        "LIST JARS",
        "CREATE TEMPORARY FUNCTION f AS 'x.Y' USING JAR '/tmp/x.jar'",
        "CREATE FUNCTION f AS 'x.Y'",
        "CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN x",
        "DROP TEMPORARY FUNCTION f",
        "REFRESH FUNCTION f",
        "CREATE TABLE t AS SELECT 1",
        "CREATE TABLE t USING csv LOCATION '/etc'",
        "CREATE TABLE t (a INT) USING jdbc OPTIONS (url 'jdbc:x')",
        "CREATE OR REPLACE TEMP VIEW v USING text OPTIONS (path '/etc/passwd')",
        "CREATE TEMPORARY VIEW trips USING text OPTIONS (path '/etc/passwd')",
        "CREATE VIEW v AS SELECT 1",
        "CREATE OR REPLACE TEMPORARY VIEW trips AS SELECT 1",
        "CREATE DATABASE d LOCATION '/tmp'",
        "CREATE INDEX i ON TABLE trips (km)",
        "ALTER TABLE trips SET LOCATION '/etc'",
        "ALTER VIEW trips AS SELECT 1",
        "DROP VIEW trips",
        "DROP TABLE IF EXISTS trips",
        "TRUNCATE TABLE trips",
        "REFRESH '/etc'",
        "REFRESH TABLE trips",
        "MSCK REPAIR TABLE trips",
        "CALL system.rollback('x')",
    ),
    "writes": (
        "INSERT INTO trips SELECT 'x', 1",
        "INSERT OVERWRITE trips VALUES ('x', 1)",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1",
        "INSERT OVERWRITE LOCAL DIRECTORY '/tmp/x' SELECT 1",
        "FROM trips INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT *",
        "FROM trips INSERT INTO a SELECT city INSERT INTO b SELECT km",
        "WITH a AS (SELECT 1) INSERT INTO trips SELECT 'x', 1",
        "INSERT INTO csv.`/tmp/x` SELECT 1",
        "LOAD DATA LOCAL INPATH '/etc/passwd' INTO TABLE trips",
        "DELETE FROM trips",
        "UPDATE trips SET km = 1",
        "MERGE INTO trips USING trips AS s ON true WHEN MATCHED THEN DELETE",
        "CACHE TABLE trips",
        "CACHE LAZY TABLE t AS SELECT reflect('a', 'b')",
        "UNCACHE TABLE trips",
        "CLEAR CACHE",
        "ANALYZE TABLE trips COMPUTE STATISTICS",
    ),
    "descriptions": (
        "SHOW TABLES",
        "SHOW FUNCTIONS",
        "SHOW CATALOGS",
        "SHOW TBLPROPERTIES trips",
        "DESCRIBE trips",
        "DESCRIBE FUNCTION reflect",
        "DESCRIBE QUERY SELECT reflect('a', 'b')",
        "EXPLAIN SELECT 1",
        "EXPLAIN EXTENDED SELECT * FROM text.`/etc/passwd`",
        "EXPLAIN FORMATTED SELECT reflect('a', 'b')",
    ),
    "schemas that are JSON": (
        *(
            f"SELECT {call}"
            for schema in (
                """'{"type":"struct","fields":[{"name":"a","type":"string","metadata":{}}]}'""",
                """concat('{"type":"struct",', '"fields":[]}')""",
                "(SELECT min(city) FROM trips)",
                "'a INT' || ''",
                "CAST('a INT' AS STRING)",
                "schema => 'a INT'",
                "upper('a int')",
            )
            for call in (f"from_json('{{}}', {schema})", f"from_csv('1', {schema})")
        ),
        """SELECT variant_get(parse_json('{}'), '$', '{"type":"struct","fields":[]}')""",
        "SELECT try_variant_get(parse_json('{}'), '$', concat('i', 'nt'))",
        """SELECT FROM_JSON(city, '\\u007b"type":"struct","fields":[]}') FROM trips""",
    ),
    "options that name classes": (
        *(
            f"SELECT {call} FROM trips"  # noqa: S608 - hostile on purpose
            for options in ("map('compression', 'org.apache.derby.jdbc.EmbeddedDriver')",)
            for call in (
                f"to_json(struct(km), {options})",
                f"to_csv(struct(km), {options})",
                f"from_json(city, 'a INT', {options})",
                f"from_csv(city, 'a INT', {options})",
                f"schema_of_json('{{}}', {options})",
                f"schema_of_csv('1', {options})",
            )
        ),
        "SELECT to_json(options => map('compression', 'x'), expr => struct(km)) FROM trips",
        "SELECT to_json(struct(km), o) FROM (SELECT map('compression', 'x') AS o, km FROM trips)",
    ),
    "names that Spark refuses while it parses": (
        "SELECT CAST('a' AS STRING COLLATE `reflect`)",
        "SELECT city::STRING COLLATE nowhere FROM trips",
        "SELECT CAST('a' AS udt)",
        "SELECT CAST(1 AS `java.lang.Thread`)",
        "DECLARE c CURSOR FOR SELECT reflect('a', 'b')",
        "BEGIN DECLARE c CURSOR FOR SELECT 1; OPEN c; END",
        "OPEN c",
        "FETCH c INTO x",
    ),
    "scripts": (
        "BEGIN SELECT 1; END",
        "BEGIN DECLARE x INT DEFAULT 1; SET x = 2; SELECT x; END",
        "BEGIN IF 1 = 1 THEN SELECT reflect('a', 'b'); END IF; END",
        "BEGIN WHILE true DO SELECT 1; END WHILE; END",
        "BEGIN FOR r AS SELECT * FROM text.`/etc/passwd` DO SELECT r.value; END FOR; END",
        "begin not atomic set spark.x = 1; end",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "EXECUTE IMMEDIATE 'SELECT ?' USING 1",
        "EXECUTE IMMEDIATE 'SET spark.sql.runSQLOnFiles = true'",
        "execute/* */immediate 'SELECT reflect(''a'', ''b'')'",
        "SELECT TRANSFORM(km) USING 'cat /etc/passwd' AS (a) FROM trips",
        "SELECT TRANSFORM(*) USING 'env' FROM trips",
        "FROM trips MAP km USING 'cat' AS a",
        "FROM trips REDUCE km USING 'cat' AS a",
        "FROM (FROM trips MAP km USING 'cat' AS a) SELECT a",
        "SELECT * FROM (SELECT TRANSFORM(km) USING 'cat' AS (a) FROM trips)",
        "WITH a AS (SELECT TRANSFORM(km) USING 'cat' AS (x) FROM trips) SELECT * FROM a",
        "SELECT (SELECT TRANSFORM(km) USING 'cat' AS (x) FROM trips)",
    ),
    "not one statement": (
        "",
        ";",
        "-- SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT 1; SET spark.sql.runSQLOnFiles = true",
        "/* SELECT */ ADD JAR '/tmp/x.jar'",
        "-- a comment\nADD JAR '/tmp/x.jar'",
        "SELECT 1 /* */; ADD JAR '/tmp/x.jar' -- ",
        "!ls",
        "dfs -ls /",
    ),
}
"""Statements that are no SELECT over `trips`, by family."""

HARMLESS: Final = (
    "SELECT * FROM trips",
    "SELECT city, km * 2 AS double FROM TRIPS WHERE km > 3 AND city LIKE 'O%'",
    "SELECT DISTINCT city FROM trips ORDER BY city DESC NULLS LAST LIMIT 2 OFFSET 1",
    "SELECT city, count(*), sum(km), avg(km), min(km), max(km) FROM trips GROUP BY city",
    "SELECT city, count(*) FROM trips GROUP BY ALL HAVING count(*) > 1",
    "SELECT city, km, count(*) FROM trips GROUP BY CUBE (city, km)",
    "SELECT city, km, grouping(city) FROM trips GROUP BY ROLLUP (city, km)",
    "SELECT city, km, count(*) FROM trips GROUP BY GROUPING SETS ((city), (km), ())",
    "SELECT count(DISTINCT city), approx_count_distinct(city), median(km) FROM trips",
    "SELECT count(*) FILTER (WHERE km > 3), percentile_approx(km, 0.9) FROM trips",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY km) FROM trips",
    "SELECT listagg(city, ',') WITHIN GROUP (ORDER BY city) FROM trips",
    "SELECT first(city) IGNORE NULLS, any_value(km), max_by(city, km) FROM trips",
    "SELECT stddev(km), variance(km), corr(km, km), skewness(km) FROM trips",
    "SELECT a.city FROM trips a JOIN trips b ON a.city = b.city AND a.km < b.km",
    "SELECT * FROM trips a LEFT JOIN trips b USING (city)",
    "SELECT * FROM trips a FULL OUTER JOIN trips b ON a.km = b.km",
    "SELECT * FROM trips a LEFT SEMI JOIN trips b ON a.km = b.km",
    "SELECT * FROM trips a LEFT ANTI JOIN trips b ON a.km = b.km",
    "SELECT * FROM trips NATURAL JOIN trips",
    "SELECT * FROM trips a CROSS JOIN trips b",
    "SELECT /*+ BROADCAST(b) */ a.km FROM trips a JOIN trips b ON a.km = b.km",
    "SELECT /*+ REPARTITION(2, city) */ * FROM trips",
    "SELECT city, row_number() OVER (PARTITION BY city ORDER BY km) FROM trips",
    "SELECT km, rank() OVER w, dense_rank() OVER w FROM trips WINDOW w AS (ORDER BY km DESC)",
    "SELECT km, lag(km, 1, 0) OVER (ORDER BY km), lead(km) OVER (ORDER BY km) FROM trips",
    "SELECT sum(km) OVER (ORDER BY km ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM trips",
    (
        "SELECT avg(km) OVER (ORDER BY km RANGE BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING)"
        " FROM trips"
    ),
    "SELECT ntile(4) OVER (ORDER BY km), percent_rank() OVER (ORDER BY km) FROM trips",
    (
        "WITH far AS (SELECT * FROM trips WHERE km > 3) SELECT f.city FROM far f JOIN trips t"
        " ON f.city = t.city"
    ),
    "WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n",
    "SELECT city FROM trips WHERE km > (SELECT avg(km) FROM trips)",
    "SELECT city FROM trips t WHERE EXISTS (SELECT 1 FROM trips u WHERE u.km > t.km)",
    "SELECT city FROM trips WHERE city NOT IN (SELECT city FROM trips WHERE km = 3)",
    "SELECT * FROM (SELECT city, km FROM trips) AS t(a, b) WHERE b BETWEEN 3 AND 4",
    "SELECT * FROM trips UNION ALL SELECT 'x', 1 EXCEPT SELECT 'y', 2 ORDER BY 1",
    "SELECT city FROM trips INTERSECT SELECT city FROM trips",
    "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(n, s)",
    "SELECT * FROM trips PIVOT (sum(km) FOR city IN ('Oslo', 'Rome' AS r))",
    "SELECT * FROM (SELECT km, km + 1 AS kn FROM trips) UNPIVOT (v FOR n IN (km, kn))",
    "SELECT * FROM VALUES (1, 2) AS t(a, b), LATERAL (SELECT a + b AS c)",
    "SELECT id, e FROM range(3) LATERAL VIEW explode(array(1, 2)) t AS e",
    "SELECT city, i, x FROM trips LATERAL VIEW OUTER posexplode(array(1, km)) t AS i, x",
    "SELECT * FROM trips TABLESAMPLE (50 PERCENT) REPEATABLE (7)",
    "SELECT explode(sequence(1, 3)) AS n",
    "SELECT * FROM explode(array(1, 2)) AS t(x)",
    "SELECT transform(array(1, 2), x -> x + 1), filter(array(1, 2), x -> x > 1)",
    "SELECT aggregate(array(1, 2), 0, (a, x) -> a + x, a -> a * 10)",
    "SELECT array_sort(collect_set(city)), array_contains(array(1), 1), size(array()) FROM trips",
    "SELECT map('a', 1)['a'], map_keys(map('a', 1)), named_struct('a', 1).a, array(1, 2)[0]",
    (
        "SELECT from_json('{\"a\": 1}', 'a INT').a, to_json(struct(1 AS a)),"
        " get_json_object('{\"a\": 1}', '$.a')"
    ),
    "SELECT parse_json('{\"a\": [1]}'):a[0]::INT, schema_of_json('{\"a\": 1}')",
    "SELECT a.b FROM (SELECT json_tuple('{\"x\": 1}', 'x') AS b) a",
    "SELECT from_csv('1,2', 'a INT, b INT'), to_csv(struct(1, 2))",
    "SELECT from_csv('1,2', 'a INT, b INT')",
    (
        "SELECT from_json(city, SCHEMA_OF_JSON('{\"a\": 1}')), from_csv(city, schema_of_csv('1,2'))"
        " FROM trips"
    ),
    (
        "SELECT variant_get(parse_json('{\"a\": 1}'), '$.a', 'ARRAY<STRUCT<b: INT>>'),"
        " try_variant_get(parse_json('{}'), '$.a', 'int'), variant_get(parse_json('{}'), '$.a')"
    ),
    "SELECT current_date, date_trunc('month', current_timestamp()), DATE '2020-01-31' + 1",
    (
        "SELECT extract(YEAR FROM DATE '2020-01-31'), date_add(DATE '2020-01-31', 1),"
        " datediff(DATE '2020-02-01', DATE '2020-01-01')"
    ),
    (
        "SELECT timestampdiff(DAY, TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP"
        " '2020-01-03 00:00:00'),"
        " TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '1' DAY"
    ),
    "SELECT to_timestamp('2020-01-01', 'yyyy-MM-dd'), unix_timestamp('2020-01-01', 'yyyy-MM-dd')",
    (
        "SELECT CASE WHEN km > 3 THEN 'far' ELSE 'near' END, CASE city WHEN 'Oslo' THEN 1 END,"
        " if(km > 3, 1, 0), coalesce(city, '-'), nullif(km, 3) FROM trips"
    ),
    "SELECT CAST(km AS DECIMAL(10, 2)), TRY_CAST('x' AS INT), km::STRING FROM trips",
    (
        "SELECT upper(city) || '-' || lower(city), trim(BOTH 'x' FROM 'xax'),"
        " substring(city FROM 1 FOR 2), position('s' IN city) FROM trips"
    ),
    (
        "SELECT regexp_replace(city, '[aeiou]', '*'), city RLIKE 'o$', split(city, 's')[0],"
        " city ILIKE 'OSLO', city LIKE ANY ('O%', 'R%') FROM trips"
    ),
    "SELECT `Ci Ty` FROM (SELECT city AS `Ci Ty` FROM trips)",
    "SELECT * EXCEPT (km) FROM trips",
    "SELECT km IS DISTINCT FROM 3, (km > 3) IS TRUE, (km > 3) IS NOT UNKNOWN FROM trips",
    "SELECT * FROM JSON_TABLE('{\"a\": 1}', '$' COLUMNS (a INT PATH '$.a'))",
    "SELECT * FROM UNNEST(array(1, 2))",
    "SELECT mask(city, lowerChar => 'x') FROM trips",
    (
        "SELECT timestampadd(HOUR, 2, TIMESTAMP '2020-01-01 00:00:00'), city COLLATE"
        " UTF8_LCASE FROM trips"
    ),
    "SELECT t.* FROM trips AS t WHERE NOT (km IS NULL OR city <=> 'x') AND km % 2 <> 1",
    "SELECT 7 DIV 2, -km, km & 1, km | 1, km ^ 1, ~km, 1.5e3, 2BD, X'1F', true FROM trips",
    "SELECT * FROM trips ORDER BY ALL LIMIT ALL",
    "SELECT * FROM trips DISTRIBUTE BY city SORT BY km",
    "SELECT md5(city), sha2(city, 256), xxhash64(city), uuid(), rand(7) FROM trips",
    "SELECT 'reflect(a, b)' AS text, \"xpath('x', 'y')\" AS other -- reflect('a', 'b')",
    "SELECT reflect FROM (SELECT km AS reflect FROM trips)",
    "TABLE trips",
    "VALUES (1, 'a')",
    "FROM trips SELECT city",
    "FROM trips |> WHERE km > 3 |> SELECT city",
    "FROM trips |> SET km = km + 1 |> EXTEND km * 2 AS d |> DROP city |> ORDER BY d |> LIMIT 2",
    "FROM trips |> AGGREGATE sum(km) AS s GROUP BY city |> WHERE s > 3",
    "FROM trips |> AS a |> JOIN trips AS b ON a.km = b.km |> SELECT a.city",
    "FROM trips |> UNION ALL VALUES ('x', 1)",
    "SELECT city FROM trips QUALIFY row_number() OVER (PARTITION BY city ORDER BY km) = 1",
    (
        "SELECT window.start, sum(km) FROM (SELECT TIMESTAMP '2020-01-01 00:00:00' AS t,"
        " km FROM trips)"
        " GROUP BY window(t, '1 day')"
    ),
)
"""Ordinary analytics."""


def hostile() -> list[tuple[str, str]]:
    """Every hostile query with its family, once each.

    Every call stands in a few places, and one call stands in every place.
    """
    first, *_ = CALLS
    found: dict[str, str] = {}
    for family, place in PLACES_OF_EVERY_CALL.items():
        found |= {place.replace(CALL, call): family for call in CALLS}
    for family, places in {**PLACES, "calls in hints": HINTS_WITH_CALLS}.items():
        found |= {place.replace(CALL, first): family for place in places}
    found |= dict.fromkeys(QUALIFIED_CALLS, "qualified names")
    for family, statements in STATEMENTS.items():
        found |= dict.fromkeys(statements, family)
    return [(family, query) for query, family in found.items()]

"""The tasks that users have, and what they type first for each, before they read a page.

Each row says which part of the answer shows that the line works, or names the line to type.
"""

# ruff: noqa: E501 - what is typed stands on one line, as a user types it

from typing import Any, NamedTuple


class Command(NamedTuple):
    """Words after ``rocketstore``, a part of what is shown, and the exit status."""

    typed: str
    shown: str
    status: int = 0


class Shell(NamedTuple):
    """A line of bash with pipefail, a part of what is shown, and the exit status."""

    typed: str
    shown: str
    status: int = 0


class Python(NamedTuple):
    """An expression, and a part of its repr or of its warnings. ``s`` is the store big."""

    typed: str
    shown: str


class Refused(NamedTuple):
    """An expression that raises an error, and a part of its text, which has the line to type."""

    typed: str
    shown: str


class Spark(NamedTuple):
    """An expression behind ``spark.read.format("rocketstore")``, and its value. ``P`` is the path of big."""

    typed: str
    answer: Any


class Elsewhere(NamedTuple):
    """A test elsewhere that types it: its file below tests, and its name."""

    file: str
    test: str


Try = Command | Shell | Python | Refused | Spark | Elsewhere

TASKS: dict[str, list[Try]] = {
    # ---- a data engineer --------------------------------------------------------------------------------
    "install it": [
        Command("--version", "version"),
        Python("rocketstore.__version__", "0.1"),
        Refused("rocketstore.version", "rocketstore.__version__"),
        Elsewhere("cli/test_cli.py", "test_without_its_extra_the_command_names_it"),
        Elsewhere("project/test_packaging.py", "test_the_command_runs_or_names_the_command_that_installs_what_it_needs"),
        Elsewhere("project/test_standalone.py", "test_it_runs_in_a_root_that_has_libc_and_python_only"),
    ],
    "open a store": [
        Python("rocketstore.open('big')", "payments"),
        Python("rocketstore.open('~/big')", "payments"),
        Refused("rocketstore.open('big/commitlog')", "did you mean"),
        Refused("rocketstore.open('bgi')", "No such file or directory"),
        Refused("rocketstore.connect('big')", "did you mean rocketstore.open(PATH)?"),
    ],
    "see what is in it": [
        Python("s", "orders"),
        Python("list(s.topics)", "['orders', 'payments']"),
        Python("s.topics()", "payments"),
        Python("s.topics", "38918"),
        Python("s.info()", "400"),
        Python("len(s['orders'])", "200"),
        Refused("s.list_topics()", "did you mean store.topics?"),
        Refused("s.orders", "did you mean store['orders']?"),
        Command("info big", '"messages": 400'),
        Command("ls big", '"topic": "payments"'),
        Command("topics big", "did you mean 'ls'?", 2),
        Command("stats big", "did you mean 'info'?", 2),
        Command("config check big", "all files are sound"),
    ],
    "filter by topic, tag, key and time": [
        Python("s.scan(topic='orders', since='-30d').to_pandas().shape[0]", "200"),
        Python("s.scan(tag='sent').count()", "200"),
        Python("rocketstore.scan_polars('big', topic='orders').collect().height", "200"),
        Python("s.dataset(topic='orders').count_rows()", "200"),
        Python("s.scan(topic='ordrs').count()", "did you mean 'orders'"),
        Python("s.scan(topic=[]).count()", "an empty list selects nothing"),
        Python("batches.scan(key='b-1-1').count()", "1"),
        Refused("s.scan(topics='orders')", "did you mean topic="),
        Refused("s.scan('orders')", "topic="),
        Refused("s.scan(since=1_700_000_000)", "seconds"),
        Refused("s.filter(topic='orders')", "store.scan("),
        Command("cat big --topic payments --tag sent --since -30d --key order-7", '"keys": ["order-7"]'),
        Command("cat big orders --limit 1", "orders is read as --topic orders"),
        Command("cat big --topic 'ord*' --limit 1", '"topic": "orders"'),
        Command("cat big --topic orders,payments --limit 2", '"topic": "payments"'),
        Command("cat big --topics orders", "Did you mean '--topic'?", 2),
        Command("cat big -t orders", "Did you mean '--topic'?", 2),
        Command("cat big --tag paid,sent", "tags are separated by ||: 'paid || sent'", 1),
        Command("cat batchcq --key b-1-1", '"keys": ["b-1-1"]'),
        Command("export batchcq batches.jsonl --tag T", "77 messages"),
        Python("s['orders'].head(3)", "order-"),
        Python("s.tail(3)", "order-"),
        Python("s.head()", "order-"),
        Python("s['orders'].to_pandas().shape[0]", "200"),
        Python("s.to_pandas().shape[0]", "400"),
        Python("s['orders'].to_polars().height", "200"),
        Python("dict(s.head(1)[0])['topic']", "orders"),
        Refused("s['orders'][0][5]", "store.get_message('orders', 0, OFFSET)"),
        Refused("s.df", "did you mean store.to_pandas()?"),
        Refused("s.head(1)[0].value", "did you mean message.body?"),
        Command("head big", "did you mean 'cat --limit 10'?", 2),
        Command("cat big -n 3", "Did you mean '--limit'?", 2),
        Command("cat big --reverse", "rocketstore cat STORE --tail 10", 2),
        Command("cat big --tail 1", '"keys": ["order-399"]'),
    ],
    "count by hour and tag": [
        Python("s.count('hour,tag')", "paid"),
        Python("s.count()", "400"),
        Python("duckdb.sql('SELECT tags, count(*) FROM messages GROUP BY 1').fetchall()", "('paid', 200)"),
        Command("count big --by hour,tag", '"tag": "paid"'),
        Command("count big", '"messages": 400'),
        Command("cat big --count", "rocketstore count", 2),
        Command("count big --group-by topic", "Did you mean '--by'?", 2),
    ],
    "read a field of JSON bodies": [
        Python("s.sql(\"SELECT sum(CAST(body_json->>'amount' AS INT)) AS total FROM messages\")", "79800"),
        Python("s.to_pandas()['body'].map(json.loads).map(lambda row: row['amount']).sum()", "79800"),
        Python("rocketstore.scan_polars('big', body_schema={'amount': pl.Int64}).select(pl.col('body_json').struct.field('amount').sum()).collect().item()", "79800"),
        Python("json.loads(s.head(1)[0].body_json)['amount']", "0"),
        Refused("s.head(1)[0].json()", "did you mean message.body_json?"),
        Command("cat big --json-body --limit 1", '"amount": 0'),
        Command("sql big \"SELECT sum(CAST(body_json->>'amount' AS INT)) AS s FROM messages\"", '"s": 79800'),
        Shell("rocketstore cat big --json-body | jq -r .body.amount | tail -1", "399"),
    ],
    "write Parquet by day and topic": [
        Command("export big days --partition-by day,topic", "400 messages"),
        Command("export big -o out.parquet", "rocketstore export STORE TARGET", 2),
        Command("export big", "Missing argument 'TARGET'", 2),
        Command("export big out.xlsx", "--format csv-safe", 2),
        Command("export big out --format jsonl", "Did you mean 'json'?", 2),
        Python("pyarrow.dataset.write_dataset(s.dataset(), 'out', format='parquet', partitioning=['topic'])", "None"),
        Refused("s.to_parquet('out.parquet')", "store.to_polars().write_parquet(PATH)"),
        Refused("s.export('out.parquet')", "store.export_new("),
    ],
    "join two topics": [
        Python("s.sql('SELECT count(*) AS n FROM messages a JOIN messages b USING (phyOffset)')", "400"),
        Command("sql big 'SELECT count(*) AS n FROM messages a JOIN messages b USING (phyOffset)'", '"n": 400'),
        Command("sql big SELECT 1", "with quotes around the statement", 2),
        Command("duckdb big", "did you mean 'sql'?", 2),
    ],
    "take a sample of 1 %": [
        Python("s.sample('10%')", "order-"),
        Python("s['orders'].sample(0.1)", "order-"),
        Refused("s.sample(10)", "such as 1% or 0.01"),
        Command("cat big --sample 10%", '"topic": '),
        Command("export big part.csv.gz --sample 10%", "messages"),
        Command("sample big", "did you mean 'cat --sample 1%'?", 2),
    ],
    "find duplicates by key": [
        Python("s.query_message('orders', 'order-0')", "100 messages"),
        Python("len(list(s.query_message('order-0')))", "100"),
        Refused("s.query('order-0')", "store.query_message(TOPIC, KEY)"),
        Refused("s.query_message('orders', None)", "the key is None"),
        Refused("s.query_message()", "give a key, or a topic and a key"),
        Command("query big --topic orders --key order-0", "100 found"),
        Command("query big order-0", "100 found"),
    ],
    "follow it live": [
        Elsewhere("cli/test_cli_follow.py", "test_follow_begins_at_the_end_and_has_one_header_and_fixed_widths"),
        Elsewhere("cli/test_cli_follow.py", "test_follow_begins_where_it_is_told"),
        Shell("timeout -s INT 10 rocketstore cat big --follow --tail 2", '"keys": ["order-399"]', 124),
        Command("tail big", "did you mean 'cat --tail 10'?", 2),
        Command("watch big", "did you mean 'cat --follow'?", 2),
        Command("cat big --live", "Did you mean '--follow'?", 2),
    ],
    "export only what is new": [
        Command("export big lake --state lake.state", "400 messages"),
        Command("export big lake --incremental", "Did you mean '--state'?", 2),
        Command("export big lake --since-last", "Did you mean '--state'?", 2),
        Python("s.export_new('lake', 'lake.state')", "400"),
    ],
    "write a store for a test": [
        Elsewhere("first_tries/test_first_python.py", "test_a_test_store_is_written_from_dicts_and_times"),
        Command("import /nope store", "/nope: No such file or directory", 1),
        Refused("s.put('orders', b'x')", "store.put_message(MESSAGE)"),
        Shell("printf 'topic,body\\na,hello\\n' > h.csv; rocketstore import h.csv new; rocketstore count new", '"messages": 1'),
        Shell("printf '{\"topic\": \"a\", \"body\": \"x\"}\\n' | rocketstore import - new --format json --small; rocketstore count new", '"messages": 1'),
    ],
    "read as a consumer does": [
        Python("s.get_message('orders', 0, 0)", "next"),
        Refused("s.get('orders', 0, 0)", "store.get_message(TOPIC, QUEUE, OFFSET)"),
        Refused("rocketstore.Consumer('G')", "follow()"),
        Command("consume big", "did you mean 'cat --follow'?", 2),
    ],
    "read it in Spark": [
        Spark("load(P).count()", 400),
        Spark("option('subscribe', 'orders').load(P).count()", 200),
        Spark("load(P).selectExpr(\"sum(get_json_object(CAST(body AS STRING), '$.amount'))\").first()[0]", 79800),
        Spark("load(P).alias('a').join(read.load(P).alias('b'), 'phyOffset').count()", 400),
        Spark("load(B).count()", 87),
        Elsewhere("spark/test_spark_options.py", "test_an_unknown_or_malformed_option_is_named"),
        Elsewhere("spark/test_spark_checks.py", "test_a_topic_that_is_nowhere_is_warned_of_with_the_most_similar_one"),
    ],
    "read it from S3": [
        Elsewhere("disk/test_remote.py", "test_a_store_on_a_server_of_s3_is_read"),
        Elsewhere("first_tries/test_first_remote.py", "test_a_store_in_a_bucket_is_opened_by_its_uri"),
        Command("verify s3://bucket/store", "rocketstore copy makes a local copy", 2),
    ],
    "see the progress": [
        Python("s.scan(progress=True).count()", "400"),
        Python("rocketstore.verify('big', progress=True)", "sound"),
    ],
    "use a notebook": [
        Elsewhere("examples/test_notebook.py", "test_the_notebook_runs_and_its_saved_outputs_are_right"),
        Python("s._repr_html_()", "<table"),
        Python("rocketstore.verify('big')._repr_html_()", "sound"),
    ],
    "check types": [
        Elsewhere("project/test_user_types.py", "test_a_users_program_has_the_types_that_it_asserts"),
        Elsewhere("project/test_user_types.py", "test_a_users_mistakes_are_reported_line_by_line"),
    ],
    "get types that pandas has": [
        Python("str(s.to_pandas().dtypes['storeTimestamp'])", "datetime64[ms, UTC]"),
        Python("s.to_pandas().drop_duplicates('uniqKey').shape[0]", "400"),
        Refused("s.dtypes", "store.to_pandas().dtypes"),
    ],
    "use another time zone": [
        Python("s.scan(since='2020-01-01 10:00', tz='Asia/Shanghai').count()", "400"),
        Python("s.to_pandas()['storeTimestamp'].dt.tz_convert('Asia/Shanghai').dt.tz", "Asia/Shanghai"),
        Command("cat big --limit 1 --tz Asia/Shanghai --iso", "+08:00"),
        Command("cat big --limit 1 --local", "--tz local", 2),
        Command("cat big --limit 1 --tz Asia/Shanghia", "Asia/Shanghai", 2),
    ],
    "read a store that is larger than the memory": [
        Elsewhere("first_tries/test_first_memory.py", "test_a_scan_needs_memory_for_a_part_of_the_store_only"),
        Python("sum(len(batch) for batch in s.scan(batch_size=100))", "400"),
    ],
    "put it into DuckDB or SQLite": [
        Command("cat big --limit 1 --columns keys,body", '{"keys": ["order-0"], "body": "'),
        Command("export big out.sqlite", "sqlite-utils insert", 2),
        Shell("rocketstore cat big --format csv --columns topic,queueOffset > m.csv; sqlite3 m.db '.import --csv m.csv m' 'SELECT count(*) FROM m'", "400"),
        Shell("rocketstore cat big --columns topic > c.jsonl; python -c \"import duckdb; print(duckdb.sql('SELECT count(*) FROM \\'c.jsonl\\'').fetchall())\"", "[(400,)]"),
    ],
    # ---- an operator ------------------------------------------------------------------------------------
    "find a message by its key": [
        Command("query big order-7", '"keys": ["order-7"]'),
        Command("query big --key order-7", '"keys": ["order-7"]'),
        Command("query big --keys order-7", "Did you mean '--key'?", 2),
        Command("find big order-7", "did you mean 'query'?", 2),
        Command("queryMsgByKey big", "did you mean 'query --key'?", 2),
    ],
    "find a message by its id": [
        Command(f"query big --id {7:032X}", "the client's message id"),
        Command(f"query big {7:032X}", '"keys": ["order-7"]'),
        Command(f"query big --msgid {7:032X}", "Did you mean '--id'?", 2),
        Command("queryMsgById big", "did you mean 'query --id'?", 2),
        Python("s.query_message_by_id('00000000000000000000000000000007').keys", "['order-7']"),
    ],
    "read a message by its queue offset": [
        Command("get default Plain", "--topic Plain shows queues and their offsets", 2),
        Command("get default Plain 0", "--topic Plain shows queues and their offsets", 2),
        Command("get default Plain 0 1", '"keys": ["b-7"]'),
        Command("get default Plain 0 5000", "offsets 0 to 77", 1),
        Command("get default Plain 0 0 5", "--limit 10", 2),
        Command("get default --topic Plain --queue 0", "rocketstore get STORE TOPIC QUEUE OFFSET", 2),
    ],
    "find messages of a time": [
        Command("cat big --since 00:00 --until 00:00", "--since", 2),
        Command("cat big --since '1 day ago' --limit 1", '"keys": '),
        Command("cat big --since 1d --limit 1", '"keys": '),
        Command("cat big --since '2020-01-01 10:00' --limit 1", '"keys": ["order-0"]'),
        Command("cat big -1h", "Did you mean '--since -1h'?", 2),
        Command("cat big --start -1h", "Did you mean '--since'?", 2),
        Command("offset big orders 1h", "rocketstore offset STORE --topic TOPIC --time 1h", 2),
        Command("offset big --topic orders --time 1d", '"queueOffset": '),
    ],
    "learn why a message is not found": [
        Command("query big order-8000", "the index has no entry with the hash of the key", 1),
        Command("query big ORDER-7", "topic 'payments' has the key 'order-7'", 1),
        Command("query big --topic orders --key order-7", "the key 'order-7' is in topic 'payments'", 1),
        Command("cat big --since -1h", "the newest message is 3h", 1),
        Python("s.query_message('orders', 'order-7').why", "the key 'order-7' is in topic 'payments'"),
        Python("s.query_message('order-8000').why", "the index has no entry with the hash"),
    ],
    "see how far consumers are behind": [
        Command("lag default", '"group": "G1"'),
        Command("lag default --totals", '"group": "G1", "topics": 1'),
        Command("lag default --group NOPE", "no group 'NOPE' in consumerOffset.json: rocketstore lag ", 1),
        Command("lag big --sort lag", "rocketstore lag STORE --totals", 2),
        Command("lag big billing", '"lag": 40'),
        Command("consumerProgress big", "did you mean 'lag'?", 2),
        Python("s.lag('billing')", "billing"),
        Python("s['orders'].lag()", "billing"),
        Python("s.lag('biling')", "did you mean 'billing'?"),
        Refused("s.groups", "did you mean store.lag()?"),
    ],
    "see which topics take the disk": [
        Command("du big --topics", "rocketstore du STORE --by topic", 2),
        Command("ls big --topics", "rocketstore du STORE --by topic", 2),
        Command("ls big --sort bytes", "rocketstore du STORE --by topic", 2),
        Command("du big --by topic", '"topic": "orders"'),
        Python("s.du()", "log"),
        Python("s.du(by='topic')", "orders"),
        Refused("s.du('topic')", "by='topic'"),
    ],
    "see what is deleted next": [
        Command("expire default", "a broker would delete no file"),
        Command("expire default --yes", "Did you mean '--apply'?", 2),
        Command("clean default", "did you mean 'expire'?", 2),
        Python("s.expiry()", "file"),
    ],
    "see what waits for delivery": [
        Command("pending default", '"kind": "timer", "topic": "Orders"'),
        Command("ls default --topic SCHEDULE_TOPIC_XXXX", '"messages": 3'),
        Command("delayed default", "did you mean 'pending'?", 2),
        Python("rocketstore.open('default').pending()", "Orders"),
        Refused("s.pending('orders')", "topic='orders'"),
    ],
    "see dead letters": [
        Command("dlq default", "no dead letter"),
        Command("ls default --topic %DLQ%G1", "rocketstore dlq", 1),
        Command("dlq big billing", "no dead letter"),
        Python("rocketstore.open('default').dead_letters()", "0"),
        Refused("s.dlq()", "store.dead_letters()"),
    ],
    "see whether and where it is damaged": [
        Command("verify damaged", "log-body-crc", 1),
        Command("get damaged Plain 0 1 --columns keys", "a body that does not match its CRC", 1),
        Command("query damaged --key b-7", "bodyCrc", 1),
        Command("check damaged", "did you mean 'verify'?", 2),
        Command("verify damaged --fix", "rocketstore recover STORE", 2),
        Python("rocketstore.verify('damaged')", "log-body-crc"),
        Refused("damaged.query_message('Plain', 'b-7')", "verify_crc=False reads"),
        Refused("s.verify()", "rocketstore.verify(PATH)"),
    ],
    "see what a repair would lose": [
        Command("recover damaged --dry-run", "rocketstore salvage", 1),
        Command("recover damaged --dry-run", "bodyCrc at byte 3318: is not the CRC of the body", 1),
        Command("salvage damaged --dry-run", "Plain: 1 message", 1),
    ],
    "repair it": [
        Command("recover damaged", "--slots 1000 --items 4000", 1),
        Command("salvage damaged --out salvaged", "Plain: 1 message", 1),
        Command("salvage damaged saved", "did you mean --out saved?", 2),
        Command("repair damaged", "did you mean 'recover'?", 2),
        Command("rebuild big index", "did you mean --index?", 2),
        Refused("rocketstore.repair('damaged')", "rocketstore.recover(PATH)"),
    ],
    "compare two stores": [
        Command("diff big copied", "the stores are the same"),
        Command("compare big copied", "did you mean 'diff'?", 2),
        Command("diff default damaged", "b-7", 1),
        Command("diff big", "Missing argument 'B'", 2),
        Python("rocketstore.diff('big', 'copied')", "0 differences"),
    ],
    "make a report": [
        Command("report big -o report.html", "report.html: "),
        Command("report big report.html", "did you mean --output report.html?", 2),
        Command("report big --out report.html", "Did you mean '--output'?", 2),
        Refused("s.report()", "rocketstore report STORE --output report.html"),
        Elsewhere("store/test_unknown_attributes.py", "test_a_room_with_a_name_of_another_tool_names_the_line"),
    ],
    "copy it while it is written": [
        Command("copy big saved", "400"),
        Command("backup big saved", "did you mean 'copy'?", 2),
        Shell("cp -rL big saved && rocketstore recover saved && rocketstore verify saved", "nothing is wrong"),
        Python("rocketstore.copy('big', 'saved')", "400 messages of queues compared"),
        Refused("s.backup('saved')", "rocketstore.copy(PATH, NEW)"),
        Refused("rocketstore.backup('big', 'saved')", "rocketstore.copy(PATH, NEW)"),
    ],
    "read unusual stores": [
        Command("info multipath", '"maxPhyOffset": 31'),
        Command("cat batchcq --limit 1", '"topic": "Bcq"'),
        Python("(len(batches['Bcq']), len(list(batches['Bcq'])), batches.scan().count())", "(87, 87, 87)"),
        Elsewhere("first_tries/test_first_stores.py", "test_each_command_reads_each_kind_of_store"),
    ],
    "complete words in a shell": [
        Command("completion bash", "complete"),
        Command("completion", "{bash|zsh|fish}", 2),
        Shell("eval \"$(rocketstore completion bash)\" && complete -p rocketstore", "_rocketstore_completion"),
        Shell("COMP_WORDS='rocketstore cat big --topic pay' COMP_CWORD=4 _ROCKETSTORE_COMPLETE=bash_complete rocketstore", "plain,payments"),
        Shell("COMP_WORDS='rocketstore cat big --columns queueO' COMP_CWORD=4 _ROCKETSTORE_COMPLETE=bash_complete rocketstore", "queueOffset"),
    ],
    "get help": [
        Command("help", "Commands:"),
        Command("help query", "Usage: rocketstore query"),
        Command("query --help", "Usage: rocketstore query"),
        Command("man", "did you mean 'help'?", 2),
        Command("query -h", "Usage: rocketstore query"),
        Shell("rocketstore", "Commands:", 2),
    ],
    "pipe it into jq and head": [
        Command("get big orders 0 0 --raw", '{"amount": 0, "city": "Xi\'an"}'),
        Command("cat big --limit 1 --template '{topic} {keys}'", "orders order-0"),
        Shell("rocketstore cat big | jq -r .topic | sort | uniq -c | sort -rn", "200 orders"),
        Shell("rocketstore cat big --columns keys | jq -r '.keys[0]' | tail -1", "order-399"),
    ],
    "use exit statuses": [
        Command("query big nothing", "no message was found", 1),
        Command("verify big", "nothing is wrong"),
        Command("lag big --totals --fail-if 'lag > 10'", "billing", 3),
        Shell("rocketstore cat default | head -1 > /dev/null; echo ${PIPESTATUS[0]}", "141"),
        Shell("timeout -s INT --preserve-status 2 rocketstore cat big --follow", "", 130),
    ],
    "type bad arguments": [
        Command("cat big --topci orders", "--topic", 2),
        Command("cat big --topic ordrs", "did you mean 'orders'", 1),
        Command("cat big --columns topc", "did you mean 'topic'", 2),
        Command("cat big --format jsonl", "Did you mean 'json'?", 2),
        Command("cat big --csv", "Did you mean '--format csv'?", 2),
        Command("cat big --since 2026-02-02 --until 2026-01-01", "until", 2),
        Command("info big/commitlog", "big", 1),
        Command("cat big --columns topic --columns tags --limit 1", '{"topic": "orders", "tags": "paid"}'),
        Command("config fix big", "rocketstore config repair STORE", 2),
        Refused("s.scan(zone='Asia/Shanghai')", "tz"),
    ],
    "read a store that may not be changed, or is written": [
        Elsewhere("first_tries/test_first_locks.py", "test_a_store_without_permission_to_write_is_read"),
        Elsewhere("first_tries/test_first_locks.py", "test_a_store_that_is_written_names_its_writer"),
    ],
}  # fmt: skip

LEAST = 42  # tasks that must have a first try that works or gets the line to type


def tries_of(kind: type) -> list[tuple[str, Any]]:
    """Return the tries of a kind with their tasks."""
    return [(task, each) for task, tries in TASKS.items() for each in tries if isinstance(each, kind)]

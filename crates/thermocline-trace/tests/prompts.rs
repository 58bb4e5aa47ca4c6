//! Prompts: each format by rows of its published form, what is wrong in rows, conversations made here.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Cursor, Write as _};
use std::path::Path;

use thermocline_core::Nanos;
use thermocline_trace::prompts::{Conversations, PromptFormat, PromptOptions, PromptTrace, Tail};
use thermocline_trace::{Input, TraceError};

fn read_with(bytes: &[u8], options: PromptOptions) -> Result<PromptTrace, TraceError> {
    PromptTrace::read(Input::new(Path::new("t.jsonl"), Cursor::new(bytes.to_vec()))?, options)
}

fn read(text: &str) -> PromptTrace {
    read_with(text.as_bytes(), PromptOptions::default()).unwrap()
}

fn chains(trace: &PromptTrace) -> Vec<Vec<u32>> {
    let chain = |prompt| trace.chain(prompt).iter().map(|page| page.0).collect();
    trace.prompts().iter().map(chain).collect()
}

const MOONCAKE: &str = r#"{"timestamp": 0, "input_length": 1100, "output_length": 40, "hash_ids": [10, 1, 2]}
{"timestamp": 3000, "input_length": 1700, "output_length": 9, "hash_ids": [10, 1, 3, 4]}
"#;

#[test]
fn mooncake_rows_are_chains() {
    let trace = read(MOONCAKE);
    assert_eq!((trace.format(), trace.block_tokens()), (PromptFormat::Mooncake, 512));
    assert_eq!(chains(&trace), [vec![0, 1, 2], vec![0, 1, 3, 4]]);
    assert_eq!((trace.tokens(), trace.blocks(), trace.distinct_blocks()), (2800, 7, 5));
    assert_eq!(trace.duration(), Nanos(3_000_000_000));
    assert_eq!(trace.prompts()[1].output_tokens, 9);
    let options = PromptOptions { tail: Tail::Drop, ..PromptOptions::default() };
    let full = read_with(MOONCAKE.as_bytes(), options).unwrap();
    assert_eq!(chains(&full), [vec![0, 1], vec![0, 1, 2]]);
    assert_eq!(full.tokens(), 2800, "the tokens are asked for all the same");
}

#[test]
fn dynamo_has_sessions_and_delays() {
    let rows = r#"{"schema": "dynamo.agentic_mooncake", "version": 2, "block_size": 4}
{"session_id": "s1", "delay": 1500, "input_tokens": 7, "output_tokens": 20, "hash_ids": [0, 1]}
{"session_id": "s2", "created_time": 10, "input_length": 4, "hash_ids": [0]}
{"session_id": "s1", "delay_ms": 500, "input_length": 9, "output_length": 20, "hash_ids": [0, 2, 3]}
"#;
    let trace = read(rows);
    assert_eq!(trace.block_tokens(), 4);
    let found: Vec<(u32, u64)> =
        trace.prompts().iter().map(|prompt| (prompt.session, prompt.at.0 / 1_000_000)).collect();
    assert_eq!(found, [(0, 1500), (1, 10), (0, 2000)]);
}

#[test]
fn bailian_chats_have_turns() {
    let rows = r#"{"chat_id": 2, "parent_chat_id": -1, "timestamp": 0.125, "input_length": 40, "output_length": 7, "type": "text", "turn": 1, "hash_ids": [5, 6, 7]}
{"chat_id": 3, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 1, "output_length": 7, "type": "text", "turn": 1, "hash_ids": [9]}
{"chat_id": 4, "parent_chat_id": 2, "timestamp": 61.0, "input_length": 33, "output_length": 7, "type": "text", "turn": 2, "hash_ids": [5, 6, 8]}
"#;
    let trace = read(rows);
    assert_eq!((trace.format(), trace.block_tokens()), (PromptFormat::Bailian, 16));
    let sessions: Vec<u32> = trace.prompts().iter().map(|prompt| prompt.session).collect();
    assert_eq!(sessions, [0, 1, 0]);
    assert_eq!(trace.prompts()[0].at, Nanos(125_000_000));
}

#[test]
fn lookups_keep_models_apart() {
    let row = |model: &str, hashes: &str| {
        format!(
            r#"{{"timestamp": 1700000000.5, "request_id": "a", "model_name": "{model}", "chunk_size": 256, "seq_len": 600, "dtypes": ["bfloat16"], "shapes": [[2, 32, 256, 1024]], "chunk_hashes": [{hashes}]}}"#
        )
    };
    let first = row("m", r#""0x1f", "0x2e""#);
    let trace = read(&[first.clone(), row("n", r#""0x1f", "0x2e""#), first].join("\n"));
    assert_eq!((trace.format(), trace.block_tokens()), (PromptFormat::LmCache, 256));
    assert_eq!(chains(&trace), [[0, 1], [2, 3], [0, 1]]);
}

#[test]
fn conversations_of_agents_have_ids_of_their_own() {
    let one = r#"{"id": "a", "block_size": 64, "hash_id_scope": "local", "requests": [
        {"t": 0.0, "in": 130, "out": 5, "hash_ids": [1, 2]},
        {"type": "agent", "requests": [{"t": 1.0, "in": 70, "out": 5, "hash_ids": [9]}]},
        {"t": 2.0, "in": 192, "out": 5, "hash_ids": [1, 2, 3]}]}"#;
    let trace = read(&[one, one].concat());
    assert_eq!(trace.format(), PromptFormat::Agent);
    assert_eq!(chains(&trace)[..3], [vec![0, 1], vec![2], vec![0, 1, 3]]);
    assert_eq!(chains(&trace)[3..], [vec![4, 5], vec![6], vec![4, 5, 7]]);
    assert_eq!(trace.prompts()[3].session, 1);
}

#[test]
fn compressed_rows_are_read() {
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gzip.write_all(MOONCAKE.as_bytes()).unwrap();
    let bytes = gzip.finish().unwrap();
    assert_eq!(read_with(&bytes, PromptOptions::default()).unwrap().blocks(), 7);
    let zst = zstd::encode_all(MOONCAKE.as_bytes(), 1).unwrap();
    assert_eq!(read_with(&zst, PromptOptions::default()).unwrap().blocks(), 7);
    let cut = read_with(&bytes[..bytes.len() / 2], PromptOptions::default()).unwrap_err();
    assert!(matches!(cut, TraceError::Truncated { .. }), "{cut}");
}

#[test]
fn wrong_rows_are_refused_with_their_place() {
    let row = |length: u64, ids: &str| {
        format!(r#"{{"timestamp": 0, "input_length": {length}, "hash_ids": [{ids}]}}"#)
    };
    let good = row(1024, "1, 2");
    for (text, expected) in [
        (
            format!("{good}\n{}", row(1600, "1, 2")),
            "row 2: 1600 tokens in blocks of 512 are 4 blocks",
        ),
        (row(1024, "1, 1"), "row 1: block 1 comes twice"),
        (format!("{good}\n{}", row(1024, "3, 2")), "row 2: block 2 follows another block"),
        (
            format!("{good}\n{{\"timestamp\": 0, \"hash_ids\": []}}"),
            "row 2: `input_length` is missing: read as a record of Mooncake or Dynamo, which needs `input",
        ),
        (format!("{good}\n{{\"timestamp\": "), "line 2: the last record has no end"),
        (r#"{"timestamp": -1, "input_length": 1, "hash_ids": [1]}"#.into(), "-1 is not a time"),
        (
            format!("{good}\n{}", good.replace("1024", "-1")),
            "line 2: a field has a wrong value (invalid",
        ),
        (
            r#"{"events": ["BlockStored"]}"#.into(),
            "row 1: no field tells the format: a trace of prompts has JSON records with `hash_ids` (Moon",
        ),
        ("time,size\n".into(), "line 1: this is not JSON (expected"),
        (String::new(), "no requests"),
    ] {
        let error = read_with(text.as_bytes(), PromptOptions::default()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("t.jsonl"), "{error}");
    }
    let options = PromptOptions::default().with_block_tokens(600);
    let trace = read_with(row(1600, "1, 2, 3").as_bytes(), options).unwrap();
    assert_eq!(trace.block_tokens(), 600);
}

#[test]
fn conversations_share_prefixes_and_repeat() {
    let options = Conversations { prompts: 3000, ..Conversations::default() };
    let trace = options.trace(Tail::Keep).unwrap();
    assert_eq!(trace.prompts().len(), 3000);
    let share = f64::from(trace.distinct_blocks()) / trace.blocks() as f64;
    assert!((0.1..0.6).contains(&share), "turns repeat what was said before: {share}");
    let rows: Vec<_> = options.rows().unwrap().collect();
    assert_eq!(rows, options.rows().unwrap().collect::<Vec<_>>(), "the seed tells all");
    let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let read = read(&lines.join("\n"));
    assert_eq!(chains(&read), chains(&trace), "the lines are read as they were made");
    let times = |trace: &PromptTrace| -> Vec<(Nanos, u32)> {
        trace.prompts().iter().map(|prompt| (prompt.at, prompt.session)).collect()
    };
    assert_eq!(times(&read), times(&trace));
    let other = Conversations { seed: 2, ..options };
    assert_ne!(rows, other.rows().unwrap().collect::<Vec<_>>());
    let alone = Conversations { next_turn: 0.0, system_tokens: 0, prompts: 500, ..options };
    let trace = alone.trace(Tail::Keep).unwrap();
    assert_eq!(u64::from(trace.distinct_blocks()), trace.blocks(), "nothing is shared");
    for wrong in [
        Conversations { prompts: 0, ..options },
        Conversations { block_tokens: 0, ..options },
        Conversations { branch: 1.5, ..options },
    ] {
        assert!(matches!(wrong.trace(Tail::Keep), Err(TraceError::Generator { .. })));
    }
}

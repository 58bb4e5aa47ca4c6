//! A policy that lets one of several decide: each change is in the log with its reason, once, and
//! `/shadows` has the same. Each of several shards chooses for itself.

use serde_json::Value;

use super::{Cache, Client, Engine};

const ADOPTS: &str = "another candidate takes over";

/// Reads that fill RAM and flash with pages that nobody wants again: what writes least to flash is best.
fn read_once(client: &mut Client) {
    for step in 0..2500_u64 {
        client.read(step * 7 % 4096 * 4096, 4096).unwrap();
    }
}

/// Return the policy's choices, once the log has its last change.
fn choosing(engine: &Engine) -> Value {
    engine.status();
    let shadows: Value = serde_json::from_str(&engine.get("/shadows")).unwrap();
    shadows["choosing"].clone()
}

const CANDIDATES: &str = "lru-exclusive+second-access";

/// Parameters with which `auto` changes its candidate soon.
fn parameters(candidates: &str, window: i64) -> toml::Table {
    toml::toml! {
        candidates = candidates
        sample_pages = 64
        patience = 1
        margin = 0.0
        move_share = 0.0
        window = window
    }
}

#[test]
fn a_restart_goes_on_with_what_was_chosen() {
    for shards in [1_i64, 2] {
        let mut cache = Cache::new(16);
        cache.set("policy.name", "auto").set("shards", shards);
        let engine = cache.set("policy.parameters", parameters(CANDIDATES, 100)).start();
        read_once(&mut engine.client());
        let before = choosing(&engine);
        assert_eq!(before["in_force"], "second-access", "{before}");
        engine.stop();
        let engine = cache.start();
        assert_eq!(choosing(&engine), before, "after a stop in order");
        assert!(!engine.log().contains(ADOPTS), "changes of the last run are not logged again");
        read_once(&mut engine.client());
        let later = choosing(&engine);
        assert!(later["accesses"].as_u64() > before["accesses"].as_u64(), "{later}");
        engine.kill();
        // A kill costs what was compared since the file was written.
        let engine = cache.start();
        let found = choosing(&engine);
        assert_eq!(found["in_force"], "second-access", "{found}");
        assert!(found["accesses"].as_u64() <= later["accesses"].as_u64());
        engine.stop();
        // Another number of shards.
        cache.set("shards", 3 - shards);
        let engine = cache.start_with(&["--force-init"]);
        assert_eq!(choosing(&engine)["in_force"], "second-access");
        engine.stop();
        // Candidates that the file does not have.
        cache.set("policy.parameters", parameters("lru-exclusive+hat+second-access", 100));
        let engine = cache.start();
        assert_eq!(choosing(&engine)["in_force"], "hat");
        engine.stop();
        cache.set("policy.parameters", parameters(CANDIDATES, 100));
        let file = cache.path("disk.img.thermocline.auto");
        let whole = std::fs::read_to_string(&file).unwrap();
        for bad in [&whole[..whole.len() / 2], "", "[]", &whole.replacen(": 1", ": 2", 1)] {
            std::fs::write(&file, bad).unwrap();
            let engine = cache.start();
            assert_eq!(choosing(&engine)["switches"], 0, "{bad}");
            let log = engine.log();
            let warns =
                |line: &str| line.contains("cannot be read") && line.contains("thermocline.auto");
            assert!(log.lines().any(warns), "{log}");
            engine.stop();
        }
    }
}

#[test]
fn every_change_is_logged_with_its_reason() {
    let mut cache = Cache::new(16);
    cache.set("policy.name", "auto").set("shadow", vec!["lru-exclusive"]);
    let engine = cache.set("policy.parameters", parameters(CANDIDATES, 100)).start();
    let mut client = engine.client();
    assert_eq!(choosing(&engine)["in_force"], "lru-exclusive");
    read_once(&mut client);
    let chosen = choosing(&engine);
    let recent = chosen["recent"].as_array().unwrap();
    assert_eq!(recent.len() as u64, chosen["switches"].as_u64().unwrap());
    assert_eq!(recent[0]["former"], "lru-exclusive", "{chosen}");
    assert_eq!(recent[0]["adopted"], "second-access", "{chosen}");
    let log = engine.log();
    assert_eq!(log.matches(ADOPTS).count(), recent.len(), "{log}");
    for switch in recent {
        let ms = |key: &str| switch[key].as_f64().unwrap();
        assert!(ms("adopted_ms_per_access") < ms("former_ms_per_access"), "{chosen}");
        let words = ["number", "former", "adopted", "accesses", "over_accesses"];
        let has =
            |line: &str| words.iter().all(|key| line.contains(&format!("{key}={}", switch[key])));
        assert!(log.lines().any(|line| line.contains(ADOPTS) && has(line)), "{switch}\n{log}");
    }
    let candidates: Vec<&Value> =
        chosen["candidates"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(candidates, ["lru-exclusive", "second-access"]);
    let shown = engine.get("/metrics");
    for name in ["in_force", "switches", "regret_ms", "lru-exclusive"] {
        let metric = format!("thermocline_policy{{name=\"{name}\",tier=\"ram\"}}");
        assert!(shown.contains(&metric), "{shown}");
    }
    // The same candidates go on, and what the new policy is told is no workload.
    cache.set("policy.parameters", parameters(CANDIDATES, 101));
    assert!(engine.reload(&cache));
    assert_eq!(choosing(&engine), chosen);
    // Others count from the beginning, and so does the log.
    cache.set("policy.parameters", parameters("lru-exclusive+lru-inclusive+second-access", 100));
    assert!(engine.reload(&cache));
    read_once(&mut client);
    let again = choosing(&engine)["switches"].as_u64().unwrap();
    assert!(again > 0);
    let logged = engine.log().matches(ADOPTS).count();
    assert_eq!(logged as u64, recent.len() as u64 + again);
    cache.set("policy.name", "lru-exclusive").unset("policy.parameters");
    assert!(engine.reload(&cache));
    assert_eq!(choosing(&engine), Value::Null, "nothing chooses any more");
    engine.stop();
}

#[test]
fn each_shard_chooses_for_itself() {
    let mut cache = Cache::new(16);
    cache
        .set("policy.name", "auto")
        .set("policy.parameters", parameters(CANDIDATES, 50))
        .set("shards", 2);
    let engine = cache.start();
    let mut client = engine.client();
    read_once(&mut client);
    let chosen = choosing(&engine);
    let shards = chosen["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 2, "{chosen}");
    let count = |one: &Value, key: &str| one[key].as_u64().unwrap();
    let sum = |key| shards.iter().map(|one| count(one, key)).sum::<u64>();
    assert!(shards.iter().all(|one| count(one, "switches") > 0), "{chosen}");
    assert_eq!(
        (sum("switches"), sum("accesses")),
        (count(&chosen, "switches"), count(&chosen, "accesses"))
    );
    let weighted =
        |one: &Value| one["regret_ms_per_access"].as_f64().unwrap() * count(one, "accesses") as f64;
    let regret: f64 = shards.iter().map(weighted).sum();
    assert!((regret - weighted(&chosen)).abs() < 1e-6, "{chosen}");
    let same = shards[0]["in_force"] == shards[1]["in_force"];
    assert_eq!(chosen["in_force"].is_null(), !same, "{chosen}");
    // The log says which shard each change is of.
    let (log, recent) = (engine.log(), chosen["recent"].as_array().unwrap());
    assert_eq!(log.matches(ADOPTS).count(), recent.len(), "{log}");
    for switch in recent {
        let has = |line: &str| {
            ["shard", "number", "accesses"]
                .iter()
                .all(|key| line.contains(&format!(" {key}={}", switch[key])))
        };
        assert!(log.lines().any(|line| line.contains(ADOPTS) && has(line)), "{switch}\n{log}");
    }
    let shown = engine.get("/metrics");
    let switches = format!("{{name=\"switches\",tier=\"ram\"}} {}", chosen["switches"]);
    assert!(shown.contains(&switches), "{shown}");
    engine.stop();
}

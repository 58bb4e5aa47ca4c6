//! Language models: how many bytes a token takes in a cache, and how much work its prefill is.

use serde::Serialize;

/// A language model, as a cache of its keys and values sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KvModel {
    /// Its name.
    pub name: &'static str,
    /// Bytes of the keys and values of a token, with 16 bits each.
    pub token_bytes: u64,
    /// Floating-point operations of a prefill per square of its tokens: attention.
    pub square_flops: u64,
    /// Floating-point operations of a prefill per token: everything else.
    pub token_flops: u64,
    /// Source of the figures.
    pub source: &'static str,
}

/// Twice the parameters that a token passes.
const fn twice(parameters: u64) -> u64 {
    2 * parameters
}

/// The models that are known by name.
pub const KV_MODELS: &[KvModel] = &[
    KvModel {
        name: "llama-3-70b",
        token_bytes: 80 * 8 * 128 * 2 * 2,
        square_flops: 80 * 4 * 8192,
        token_flops: 80 * 22 * 8192 * 8192,
        source: "Qin et al. (Mooncake), FAST '25: l (a n^2 d + b n d^2), a = 4, b = 22, l = 80, d = 8192",
    },
    KvModel {
        name: "llama-3.1-8b",
        token_bytes: 32 * 8 * 128 * 2 * 2,
        square_flops: 32 * 4 * 4096,
        token_flops: twice(32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14_336)),
        source: "the model's configuration; 2 operations per parameter of a layer",
    },
    KvModel {
        name: "qwen3-32b",
        token_bytes: 64 * 8 * 128 * 2 * 2,
        square_flops: 64 * 4 * 8192,
        token_flops: twice(64 * (2 * 5120 * 8192 + 2 * 5120 * 1024 + 3 * 5120 * 25_600)),
        source: "the model's configuration; 2 operations per parameter of a layer",
    },
    KvModel {
        name: "qwen3-235b-a22b",
        token_bytes: 94 * 4 * 128 * 2 * 2,
        square_flops: 94 * 4 * 8192,
        token_flops: twice(94 * (2 * 4096 * 8192 + 2 * 4096 * 512 + 8 * 3 * 4096 * 1536)),
        source: "the model's configuration; 2 operations per parameter of a layer, 8 experts",
    },
    KvModel {
        name: "deepseek-v3",
        token_bytes: 61 * (512 + 64) * 2,
        square_flops: 61 * 2 * 128 * (192 + 128),
        token_flops: twice(37_000_000_000),
        source: "latent attention of 512 + 64; 2 operations per parameter of 37 billion active ones",
    },
    KvModel {
        name: "gpt-oss-120b",
        token_bytes: 36 * 8 * 64 * 2 * 2,
        square_flops: 18 * 4 * 4096,
        token_flops: twice(5_100_000_000),
        source: "all 36 layers are kept, 18 look at all tokens; 5.1 billion active parameters",
    },
];

impl KvModel {
    /// Return the floating-point operations of the prefill of `tokens` tokens.
    pub fn flops(&self, tokens: u64) -> u128 {
        let tokens = u128::from(tokens);
        u128::from(self.square_flops) * tokens * tokens + u128::from(self.token_flops) * tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_large_as_published() {
        let token_bytes = KV_MODELS.iter().map(|model| (model.name, model.token_bytes));
        let expected = [
            ("llama-3-70b", 327_680),
            ("llama-3.1-8b", 131_072),
            ("qwen3-32b", 262_144),
            ("qwen3-235b-a22b", 192_512),
            ("deepseek-v3", 70_272),
            ("gpt-oss-120b", 73_728),
        ];
        assert_eq!(token_bytes.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn loading_pays_above_the_published_bandwidths() {
        let model = &KV_MODELS[0];
        for (tokens, expected) in
            [(1024, 6.77), (4096, 6.35), (8192, 5.86), (32_768, 4.01), (131_072, 1.77)]
        {
            let seconds = model.flops(tokens) as f64 / (8.0 * 312e12);
            let gigabytes = (tokens * model.token_bytes) as f64 / 1e9 / seconds;
            assert!((gigabytes - expected).abs() < 0.01, "{tokens} tokens: {gigabytes}");
        }
    }
}

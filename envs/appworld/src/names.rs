//! The words that tasks and worlds draw from. All are single lower-case words of 3 to 7 letters.
//!
//! Invariant: the three lists are disjoint from each other; a test checks it.

/// First words of entities (songs, artists, notes).
pub const FIRST: [&str; 40] = [
    "amber", "azure", "bold", "brave", "bright", "calm", "clear", "cold", "coral", "crisp", "dark",
    "deep", "dusty", "early", "faint", "fast", "golden", "grand", "green", "happy", "hidden",
    "honest", "ivory", "jolly", "kind", "late", "lazy", "lone", "loud", "lucky", "mellow", "misty",
    "noble", "pale", "proud", "quiet", "rapid", "silver", "solar", "velvet",
];

/// Second words of entities.
pub const SECOND: [&str; 40] = [
    "anchor", "arrow", "badge", "beacon", "bridge", "canyon", "castle", "cloud", "comet", "crown",
    "desert", "dragon", "eagle", "engine", "falcon", "flame", "forest", "garden", "harbor",
    "island", "jungle", "ladder", "lagoon", "lantern", "meadow", "mirror", "motor", "ocean",
    "palace", "planet", "rabbit", "river", "shadow", "signal", "spring", "stone", "temple",
    "tiger", "valley", "window",
];

/// Words that names of APIs and parameters are made of where they differ from world to world.
pub const API_WORDS: [&str; 28] = [
    "acorn", "birch", "cedar", "clover", "cypress", "fern", "fig", "hazel", "heath", "holly",
    "ivy", "juniper", "kelp", "laurel", "lichen", "lotus", "maple", "moss", "nettle", "olive",
    "poplar", "reed", "sage", "sedge", "sorrel", "thyme", "willow", "yarrow",
];

/// First names of the people whose worlds these are.
pub const PEOPLE: [&str; 12] = [
    "ada", "boris", "clara", "dario", "elena", "felix", "greta", "hugo", "irene", "jonas", "karin",
    "leo",
];

/// Family names of the people.
pub const FAMILIES: [&str; 12] = [
    "abel", "brandt", "costa", "dietz", "ekman", "fabre", "grimm", "holm", "ibsen", "jansen",
    "keller", "lindt",
];

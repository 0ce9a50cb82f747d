//! Every file of the corpora of the fuzz targets that read pages.

use lode_testdata::check_corpus;

#[path = "../../../fuzz/src/format.rs"]
mod invariants;

#[test]
fn superblock_corpus() {
    check_corpus("superblock", invariants::check_superblock);
}

#[test]
fn pair_label_corpus() {
    check_corpus("pair-label", invariants::check_pair_label);
}

#[test]
fn redo_log_corpus() {
    check_corpus("redo-log", invariants::check_redo_log);
}

#[test]
fn directory_corpus() {
    check_corpus("directory", invariants::check_directory);
}

#[test]
fn table_page_corpus() {
    check_corpus("table-page", invariants::check_table);
}

#[test]
fn journal_page_corpus() {
    check_corpus("journal-page", invariants::check_journal);
}

#[test]
fn record_buffer_corpus() {
    check_corpus("record-buffer", invariants::check_record_buffer);
}

package tapetest

var durableTests []test

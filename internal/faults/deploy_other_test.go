//go:build nightly && !linux

package faults

const restrictEnv = "LINGSERVE_TEST_RESTRICT"

func restrictedChild() int { return 1 }

//go:build !linux

package db

func unreliableFilesystem(string) string { return "" }

// Package filelock keeps two processes from using one folder, by a lock on a file in it that ends with its holder (flock(2)).
package filelock

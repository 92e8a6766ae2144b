package main

import "errors"

func (b *bench) node(name string) (*process, error) {
	return nil, errors.New("no such contender: " + name)
}

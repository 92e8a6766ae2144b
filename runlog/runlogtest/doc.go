// Package runlogtest is the test that every [runlog.Log] passes.
package runlogtest

package l3sim_test

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim"
)

// TestZeroValues: no method of an exported type panics on a value that no function returned, nor of a nil pointer: what returns no error returns nothing or zero.
func TestZeroValues(t *testing.T) {
	for _, of := range []reflect.Type{
		reflect.TypeFor[l3sim.Access](), reflect.TypeFor[l3sim.Config](), reflect.TypeFor[l3sim.DRAM](), reflect.TypeFor[l3sim.DRAMStats](),
		reflect.TypeFor[l3sim.Error](), reflect.TypeFor[l3sim.Extension](), reflect.TypeFor[l3sim.HeadResult](), reflect.TypeFor[l3sim.HeadTable](),
		reflect.TypeFor[l3sim.Loader](), reflect.TypeFor[l3sim.Node](), reflect.TypeFor[l3sim.Options](), reflect.TypeFor[l3sim.Policy](),
		reflect.TypeFor[l3sim.Request](), reflect.TypeFor[l3sim.Result](), reflect.TypeFor[l3sim.RunOptions](), reflect.TypeFor[l3sim.Summary](),
		reflect.TypeFor[l3sim.SweepOptions](), reflect.TypeFor[l3sim.System](), reflect.TypeFor[l3sim.Table](), reflect.TypeFor[l3sim.Trace](),
	} {
		for i := range reflect.PointerTo(of).NumMethod() {
			for _, number := range []int{0, 5, -1} {
				if panicked := callOfNothing(reflect.New(of).Method(i), number); panicked != nil {
					t.Errorf("%v.%s of %d: %v", of, reflect.PointerTo(of).Method(i).Name, number, panicked)
				}
				if of == reflect.TypeFor[l3sim.Config]() || reflect.PointerTo(of).Method(i).Name == "Add" {
					continue // of nil: a configuration is its fields, which nil does not have; nothing can be added to nil
				}
				if panicked := callOfNothing(reflect.Zero(reflect.PointerTo(of)).Method(i), number); panicked != nil {
					t.Errorf("%v.%s of %d, a nil pointer: %v", of, reflect.PointerTo(of).Method(i).Name, number, panicked)
				}
			}
		}
	}
}

// callOfNothing calls a method with a number for each integer and else empty arguments, and returns what it panics with.
func callOfNothing(method reflect.Value, number int) (panicked any) {
	defer func() { panicked = recover() }()
	var in []reflect.Value
	for i := range method.Type().NumIn() {
		switch of := method.Type().In(i); {
		case method.Type().IsVariadic() && i == method.Type().NumIn()-1:
		case of == reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(context.Background()))
		case of == reflect.TypeFor[io.Writer]():
			in = append(in, reflect.ValueOf(io.Discard))
		case of.Kind() == reflect.Int || of.Kind() == reflect.Int64:
			in = append(in, reflect.ValueOf(number).Convert(of))
		case of.Kind() == reflect.Pointer:
			in = append(in, reflect.New(of.Elem()))
		default:
			in = append(in, reflect.Zero(of))
		}
	}
	for _, out := range method.Call(in) {
		_ = fmt.Sprint(out)
	}
	return nil
}

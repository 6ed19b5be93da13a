// Package list has what package slices of the standard library lacks: Map.
//
// Start and end at list.go.
package list

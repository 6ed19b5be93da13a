// Package list has what package slices of the standard library lacks: Map.
package list

// Command vet runs the analysers of go vet and package fused's under go vet.
package main

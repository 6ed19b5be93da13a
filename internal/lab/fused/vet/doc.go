// Command vet runs package fused's check under go vet.
package main

package tables

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results"
)

// betters has the directions of all metrics. A new metric must be added: a lower use of a link or a larger batch, for
// example, is neither better nor worse by itself.
var betters = map[Better]string{
	Higher: `
		output_tokens_per_s output_tokens_per_s_per_user total_tokens_per_s requests_per_s goodput_attainment goodput_requests_per_s goodput_tokens_per_s
		utilization_gpu utilization_pim output_tokens_per_site_joule total_tokens_per_site_joule output_tokens_per_s_per_mw cache_hit_rate`,
	Lower: `
		simulated_s tbt_mean_ms tbt_p50_ms tbt_p90_ms tbt_p95_ms tbt_p99_ms tbt_max_ms tbt_decode_mean_ms tbt_decode_p50_ms
		tbt_decode_p90_ms tbt_decode_p95_ms tbt_decode_p99_ms tbt_decode_max_ms stall_count stall_mean_ms stall_p99_ms stall_max_ms
		ttft_mean_ms ttft_p50_ms ttft_p90_ms ttft_p95_ms ttft_p99_ms ttft_max_ms e2e_mean_ms e2e_p50_ms e2e_p90_ms e2e_p95_ms e2e_p99_ms
		e2e_max_ms queue_mean_ms queue_p50_ms queue_p90_ms queue_p95_ms queue_p99_ms queue_max_ms tpot_mean_ms tpot_p50_ms tpot_p90_ms
		tpot_p95_ms tpot_p99_ms tpot_max_ms iteration_mean_ms iteration_dense_ms iteration_attention_ms iteration_waiting_ms
		rejected_requests refused_requests expired_requests preemptions gpu_energy_total_j gpu_energy_prefill_j gpu_energy_decode_j
		gpu_energy_idle_j gpu_energy_per_output_token_j site_energy_total_j site_energy_low_j site_energy_high_j
		site_energy_dram_activate_j site_energy_dram_read_j site_energy_dram_write_j site_energy_dram_io_j site_energy_dram_refresh_j
		site_energy_dram_active_standby_j site_energy_dram_standby_j site_energy_dram_vpp_j site_energy_pim_read_j site_energy_bank_units_j
		site_energy_rank_units_j site_energy_dimm_buffers_j site_energy_hbm_pim_j site_energy_links_j site_energy_host_cpus_j
		site_energy_board_j site_energy_cooling_j site_power_mean_w rank_w dimm_peak_w dimm_peak_high_w capital_usd usd_per_hour
		energy_usd_per_hour usd_per_million_output_tokens usd_per_million_output_tokens_low usd_per_million_output_tokens_high
		kg_co2_per_million_output_tokens rankset_imbalance kv_fragmentation`,
	Neither: `
		requests input_tokens output_tokens input_mean input_std output_mean output_std arrivals_rate_per_s requests_in_system_mean
		decode_batch_mean decode_batch_step_mean decode_batch_max iterations utilization_pcie_down utilization_pcie_up utilization_channel
		waits_gpu_pim_share waits_gpu_imbalance_share waits_gpu_link_down_share waits_gpu_link_up_share waits_gpu_channel_share
		waits_gpu_host_share waits_gpu_no_requests_share waits_pim_gpu_share waits_pim_link_down_share waits_pim_link_up_share
		waits_pim_channel_share waits_pim_host_share waits_pim_other_ranksets_share waits_pim_no_requests_share site_energy_assumed_share
		dimm_limit_w rank_dies dram_estimated dimms_per_channel beyond_boards kv_capacity_bytes kv_peak_bytes attention_context_tokens_mean
		attention_attended_tokens_mean cache_hit_tokens cache_miss_tokens cache_evicted_blocks cache_bytes_peak cache_prefix_transfer_bytes
		cache_offloaded_bytes cache_spared_tokens api_server_utilization saturated too_long_requests gpu_time_measured gpu_time_borrowed gpu_time_data_sheet gpu_time_never_measured
		gpu_time_beyond_range gpu_time_expected_error_percent`,
}

// TestDirections: every metric has its chosen direction.
func TestDirections(t *testing.T) {
	chosen := map[string]Better{}
	for better, names := range betters {
		for _, name := range strings.Fields(names) {
			if _, twice := chosen[name]; twice {
				t.Errorf("%s has two directions", name)
			}
			chosen[name] = better
		}
	}
	for _, m := range results.Metrics() {
		want, ok := chosen[m.Name]
		if got := Describe(m.Name).Better; !ok || got != want {
			t.Errorf("%s: %q is better, chosen %v: %q", m.Name, got, ok, want)
		}
		delete(chosen, m.Name)
	}
	for name := range chosen {
		t.Errorf("%s is no metric", name)
	}
}

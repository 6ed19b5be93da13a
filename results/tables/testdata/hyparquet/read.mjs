// Prints what hyparquet reads in the file of the first argument as one JSON object: the metadata, and for each column its
// name, physical and logical type, and values. Whole numbers of 64 bits are texts, which keep all digits.
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'

const file = await asyncBufferFromFile(process.argv[2])
const metadata = await parquetMetadataAsync(file)
const rows = await parquetReadObjects({ file, metadata })
const columns = metadata.schema.slice(1).map(({ name, type, logical_type }) => ({
  name, type, logical: logical_type?.type ?? '', values: rows.map(row => row[name] ?? null),
}))
const out = { created_by: metadata.created_by, metadata: metadata.key_value_metadata, rows: Number(metadata.num_rows), columns }
console.log(JSON.stringify(out, (_, v) => typeof v === 'bigint' ? v.toString() : v))

"""Who does it: batches, filters, stems, slices, indexes and the fabric that sends rusters through them."""

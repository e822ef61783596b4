#include "rs_columns.h"

#include <string.h>

#include "rs_bytes.h"
#include "rs_cpu.h"
#include "test_util.h"

/* Few rows stay in the cache, many may go past it: where the border is, is the library's affair. */
enum { ROW = 20, FEW = 150, MANY = 140000, SPARE = 64, UNTOUCHED = 0x5A };

/* Memory of three columns. Each is put `spare` rows before the end, behind which no one may write. */
static struct guarded columns[3];
static const size_t WIDTHS[3] = {8, 4, 8};

static void check(const uint8_t *rows, size_t n, const size_t *spare)
{
    uint8_t *column[3];
    for (int c = 0; c < 3; c++) {
        column[c] = columns[c].end - (n + spare[c]) * WIDTHS[c];
        memset(column[c] - 1, UNTOUCHED, (size_t)(columns[c].end - column[c]) + 1);
    }
    rs_columns_8_4_8(rows, n, (int64_t *)(void *)column[0], (int32_t *)(void *)column[1],
                     (int64_t *)(void *)column[2]);
    for (size_t i = 0; i < n; i++) {
        uint64_t first, third;
        uint32_t second;
        memcpy(&first, column[0] + 8 * i, 8);
        memcpy(&second, column[1] + 4 * i, 4);
        memcpy(&third, column[2] + 8 * i, 8);
        CHECK(first == rs_load_be64(rows + ROW * i), "row %zu of %zu", i, n);
        CHECK(second == rs_load_be32(rows + ROW * i + 8), "row %zu of %zu", i, n);
        CHECK(third == rs_load_be64(rows + ROW * i + 12), "row %zu of %zu", i, n);
    }
    for (int c = 0; c < 3; c++) {
        CHECK(column[c][-1] == UNTOUCHED, "column %d of %zu rows: written before it", c, n);
        for (uint8_t *p = column[c] + n * WIDTHS[c]; p < columns[c].end; p++)
            CHECK(*p == UNTOUCHED, "column %d of %zu rows: written behind it", c, n);
    }
}

static void check_every_length_and_place(struct guarded memory)
{
    for (size_t n = 0; n <= FEW; n++) {
        check(memory.begin + n % 7, n, (size_t[]){0, 0, 0});
        check(memory.end - n * ROW, n, (size_t[]){n % 3, n % 5, n % 2});
    }
}

/* Columns that have their lines' borders at the same row, at every row; and some that have not. */
static void check_many_rows(struct guarded memory)
{
    for (size_t spare = 0; spare <= 16; spare++) {
        check(memory.end - (MANY - 16 - spare) * ROW, MANY - 16 - spare, (size_t[]){spare, spare, spare});
        check(memory.begin + spare, MANY - 17, (size_t[]){spare, spare, spare});
        check(memory.begin, MANY - 32, (size_t[]){spare, 5, 16 - spare});
    }
}

int main(void)
{
    struct guarded memory = guarded_alloc(MANY * ROW);
    fill_random(memory.begin, (size_t)(memory.end - memory.begin), 20);
    for (int c = 0; c < 3; c++)
        columns[c] = guarded_alloc((MANY + SPARE) * WIDTHS[c]);

    check_every_length_and_place(memory);
    check_many_rows(memory);
    printf("columns: %s\n", rs_cpu_name(rs_cpu_level()));
    return 0;
}

-- Suppliers of a nation who have more of a part than half a year's sales of it.
select s_name, s_address from supplier join nation on n_nationkey = s_nationkey
where n_name = 'CANADA' and s_suppkey in (
  select ps_suppkey from partsupp join part on p_partkey = ps_partkey
  where p_name like 'forest%' and ps_availqty > (
    select sum(l_quantity) / 2 from lineitem where l_partkey = ps_partkey and l_suppkey = ps_suppkey
    and l_shipdate between date '1994-01-01' and date '1994-12-31'
  )
) order by s_name;
